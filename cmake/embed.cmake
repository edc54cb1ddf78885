# Writes a text file as a C++ header with one std::string_view:
#
#     cmake -DIN=web/report.html -DOUT=report_page.h -DNAME=kReportPage -P cmake/embed.cmake
#
# The text is cut in pieces of 8000 bytes, which the compiler joins: no literal is too long for any compiler. A NUL byte
# or a carriage return would not survive, and the header would lie: both are refused.

foreach(name IN ITEMS IN OUT NAME)
  if(NOT DEFINED ${name})
    message(FATAL_ERROR "embed.cmake wants -D${name}=...")
  endif()
endforeach()

file(READ ${IN} text)
file(SIZE ${IN} size)
string(LENGTH "${text}" length)
string(FIND "${text}" "\r" carriage_return)
string(FIND "${text}" ")embed\"" end_mark)
if(NOT length EQUAL size OR NOT carriage_return EQUAL -1 OR NOT end_mark EQUAL -1)
  message(FATAL_ERROR "${IN} holds a NUL byte, a carriage return or the mark )embed\", and cannot be a C++ raw string")
endif()

set(pieces "")
set(at 0)
while(at LESS length)
  string(SUBSTRING "${text}" ${at} 8000 piece)
  string(APPEND pieces "\n    R\"embed(${piece})embed\"")
  math(EXPR at "${at} + 8000")
endwhile()
if(pieces STREQUAL "")
  set(pieces " \"\"")
endif()

get_filename_component(from ${IN} NAME)
file(WRITE ${OUT} "// Made from ${from} by cmake/embed.cmake.
#pragma once

#include <string_view>

namespace laconic {

inline constexpr std::string_view ${NAME} =${pieces};

}  // namespace laconic
")
