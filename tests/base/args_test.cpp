// The spec language: what it takes, and the sentences it answers mistakes with.
#include "laconic/base/args.h"

#include "tests/support.h"

namespace laconic::testing {
namespace {

std::string refusal(const std::string& spec) {
  return message_of<UsageError>([&] { parse_operator(spec); });
}
bool says(const std::string& message, const std::string& what) {
  return message.find(what) != std::string::npos;
}

TEST(Spec, SpellingsOfOneOperatorAreOneOperator) {
  for (const char* spec : {"natural", "natural:9", "natural:bits=9", "natural:stochastic",
                           "natural:9,stochastic", "natural:rounding=stochastic,bits=9"})
    EXPECT_EQ(parse_operator(spec).spec(), "natural") << spec;
  EXPECT_EQ(parse_operator("natural:nearest,8").spec(), "natural:8,nearest");
  EXPECT_EQ(parse_operator("natural:9+entropy").spec(), "natural+entropy");
  EXPECT_EQ(parse_operator("half:fp16").spec(), "half");
}

TEST(Spec, UnknownNamesListTheKnown) {
  EXPECT_TRUE(says(refusal("natrual"), "no operator 'natrual'; known: "));
  EXPECT_TRUE(says(refusal("natrual"), "natural"));
}

TEST(Spec, WrongArgumentsSayWhatIsAllowed) {
  const std::string message = refusal("natural:banana");
  EXPECT_TRUE(says(message, "natural: 'banana' is not allowed")) << message;
  EXPECT_TRUE(says(message, "bits = 8 | 9, rounding = stochastic | nearest")) << message;
  EXPECT_TRUE(says(refusal("natural:width=8"), "no parameter 'width'"));
  EXPECT_TRUE(says(refusal("natural:bits=7"), "'bits=7' is not allowed"));
  EXPECT_TRUE(says(refusal("natural:bits=8,bits=8"), "given twice"));
  EXPECT_TRUE(
      says(refusal("natural:8,9"), "'9' is not allowed beside another bits; allowed: bits"));
  EXPECT_TRUE(says(refusal("natural:8,banana"), "'banana' is not allowed; allowed: bits"));
  EXPECT_TRUE(says(refusal("identity:3"), "it takes no arguments"));
}

TEST(Spec, WrongChainsSayWhy) {
  const std::string message = refusal("natural+half");
  EXPECT_TRUE(says(message, "'half' (a quantiser) cannot follow 'natural' (a quantiser)"))
      << message;
  EXPECT_TRUE(says(refusal("entropy+natural"),
                   "'natural' (a quantiser) cannot follow 'entropy' (a coder)"));
  EXPECT_TRUE(says(refusal("entropy+entropy"), "cannot follow"));
}

TEST(Spec, BrokenTextIsRefused) {
  for (const char* spec :
       {"", "+", "natural+", "+natural", "natural++entropy", "natural:", "natural:,", "natural:8,",
        "natural :8", "natural;", "na\ttural", "natural:bits=", "natural:=8"})
    EXPECT_THROW(parse_operator(spec), UsageError) << spec;
  EXPECT_THROW(parse_operator(std::string(100000, 'a')), UsageError);
  EXPECT_THROW(parse_operator(std::string("natural\0", 8)), UsageError);
  EXPECT_EQ(refusal("topk:1%"),
            "the spec has '%' in place 7; allowed: letters, digits and : + , = . _ -");
  EXPECT_TRUE(says(refusal("\xc3\xa9t\xc3\xa9"), "the spec has the byte 0xc3 in place 1"));
}

const std::vector<Parameter> kNumbers = {{.name = "density",
                                          .fallback = "",
                                          .choices = {},
                                          .min = 0,
                                          .max = 1,
                                          .whole = false,
                                          .help = ""},
                                         {.name = "count",
                                          .fallback = "4",
                                          .choices = {},
                                          .min = 1,
                                          .max = 1 << 30,
                                          .whole = true,
                                          .help = ""}};

TEST(Args, NumbersHaveRangesUnitsAndOneSpelling) {
  const Args args("topk", kNumbers, "1e-2,count=2K");
  EXPECT_DOUBLE_EQ(args.number("density"), 0.01);
  EXPECT_EQ(args.whole("count"), 2048U);
  EXPECT_EQ(args.canonical(), "topk:0.01,count=2048");
  EXPECT_EQ(Args("topk", kNumbers, "0.010").canonical(), "topk:0.01");
  EXPECT_TRUE(says(message_of<UsageError>([] { Args("topk", kNumbers, ""); }),
                   "topk needs density; allowed: density = 0 to 1"));
  for (const char* text :
       {"2", "-1", "nan", "inf", "0.1x", "0.1,1.5", "0.1,0", "0.1,count=3e9", "0x1", "1e999"})
    EXPECT_THROW(Args("topk", kNumbers, text), UsageError) << text;
}

// As in arc:2, which is no sketch of two columns.
TEST(Args, ABareNumberThatTheFirstRefusesGoesToNoOther) {
  const std::vector<Parameter> parameters = {
      {.name = "density", .fallback = "0.01", .min = 0, .max = 1},
      {.name = "norm", .fallback = "max", .choices = {"max", "2"}},
      {.name = "sketch", .fallback = "4", .min = 1, .max = 64, .whole = true}};
  const auto read = [&](const char* text) { return Args("arc", parameters, text).canonical(); };
  EXPECT_EQ(message_of<UsageError>([&] { read("8"); }),
            "arc: '8' is not allowed; allowed: density = 0 to 1, norm = max | 2, sketch = 1 to 64, "
            "whole");
  EXPECT_EQ(read("0.2,8"), "arc:0.2,sketch=8");
  EXPECT_EQ(read("sketch=8"), "arc:sketch=8");
  EXPECT_EQ(read("2"), "arc:2") << "a word";
  EXPECT_EQ(read("max,0.5,7"), "arc:0.5,sketch=7");
}

}  // namespace
}  // namespace laconic::testing
