// The page is part of the program; cmake/embed.cmake makes report_page.h of it.
#include "cli/report.h"

#include <nlohmann/json.hpp>

#include "report_page.h"

namespace laconic::cli {

// "</" would end the script element that holds the data.
std::string page_of(const Json& report) {
  constexpr std::string_view kPlace = "\"@LACONIC_REPORT@\"";
  std::string data = report.dump(-1, ' ', false, Json::error_handler_t::replace);
  for (std::size_t at = 0; (at = data.find("</", at)) != std::string::npos; at += 3)
    data.replace(at, 2, "<\\/");
  std::string page(kReportPage);
  return page.replace(page.find(kPlace), kPlace.size(), data);
}

}  // namespace laconic::cli
