// The planner from C.
#include "laconic/c_guard.h"
#include "laconic/planner/report.h"

using namespace laconic;
using namespace laconic::c;

laconic_status laconic_plan(const char* request, const char** report) {
  thread_local std::string text;
  return guard([&] {
    need(report, "report") = nullptr;
    text = write_report(make_report(read_request(&need(request, "request"))));
    *report = text.c_str();
  });
}
