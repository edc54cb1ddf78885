// Layouts and rules: every entry of the model in exactly one slice, with the operator its rule
// says.
#include "tests/support.h"

namespace laconic::testing {
namespace {

const Model kModel = {{"conv1.weight", {20, 1, 5, 5}},
                      {"conv1.bias", {20}},
                      {"fc1.weight", {500, 80}},
                      {"fc1.bias", {500}},
                      {"scale", {}},
                      {"nothing", {0, 3}},
                      {"fc2.weight", {10, 500}},
                      {"fc2.bias", {10}}};
const Operator kNatural = parse_operator("natural"), kIdentity = parse_operator("identity");

std::vector<std::string> names(const Plan& plan) {
  std::vector<std::string> result;
  for (const Slice& slice : plan.layout) result.push_back(slice.name);
  return result;
}

void expect_tiling(const Plan& plan) {
  std::size_t at = 0;
  for (const Slice& slice : plan.layout) {
    EXPECT_EQ(slice.offset, at) << slice.name;
    EXPECT_EQ(slice.rows * slice.cols, slice.count) << slice.name;
    at += slice.count;
  }
  EXPECT_EQ(at, count_of(kModel));
  EXPECT_EQ(plan.operator_of.size(), plan.layout.size());
}

TEST(Layout, EveryLayoutTilesTheModelWithAndWithoutRules) {
  const std::vector<Rule> rules = {parse_rule("max_rank=1,op=identity")};
  for (const LayoutInfo& info : layouts()) {
    SCOPED_TRACE(info.name);
    expect_tiling(make_plan(kModel, info.name, kNatural));
    expect_tiling(make_plan(kModel, info.name, kNatural, rules));
  }
  for (const char* layout :
       {"fused:4", "fused:1000", "fused:1G", "split:1", "split:777", "split:1G"}) {
    SCOPED_TRACE(layout);
    expect_tiling(make_plan(kModel, layout, kNatural, rules));
  }
}

TEST(Layout, TensorKeepsShapesAsMatrices) {
  const Plan plan = make_plan(kModel, "tensor", kNatural);
  ASSERT_EQ(plan.layout.size(), kModel.size());
  EXPECT_EQ(plan.layout[0].rows, 20U);
  EXPECT_EQ(plan.layout[0].cols, 25U);
  EXPECT_EQ(plan.layout[1].cols, 1U);
  EXPECT_EQ(plan.layout[4].count, 1U);
  EXPECT_EQ(plan.layout[5].count, 0U);
}

TEST(Layout, WholeFusedAndSplitMergeAndCut) {
  EXPECT_EQ(names(make_plan(kModel, "whole", kNatural)),
            (std::vector<std::string>{"conv1.weight..fc2.bias"}));
  EXPECT_EQ(names(make_plan(kModel, "fused:2080", kNatural)),
            (std::vector<std::string>{"conv1.weight..conv1.bias", "fc1.weight", "fc1.bias..nothing",
                                      "fc2.weight", "fc2.bias"}));
  EXPECT_EQ(make_plan(kModel, "split:10K", kNatural).layout.size(), 5U);
}

TEST(Layout, RulesChooseByNameSizeAndRankAndMergingStopsAtThem) {
  const std::vector<Rule> rules = {parse_rule("name=fc1.*,op=half"),
                                   parse_rule("max=30,op=identity")};
  const Plan tensor = make_plan(kModel, "tensor", kNatural, rules);
  std::vector<std::string> specs;
  for (std::size_t i = 0; i < tensor.layout.size(); ++i) specs.push_back(tensor.op(i).spec());
  EXPECT_EQ(specs, (std::vector<std::string>{"natural", "identity", "half", "half", "identity",
                                             "identity", "natural", "identity"}));
  EXPECT_EQ(names(make_plan(kModel, "whole", kNatural, rules)),
            (std::vector<std::string>{"conv1.weight", "conv1.bias", "fc1.weight..fc1.bias",
                                      "scale..nothing", "fc2.weight", "fc2.bias"}));
}

TEST(Layout, RulesMayNameARankAndMergingStopsThereToo) {
  const std::vector<Rule> rules = {parse_rule("name=fc1.weight,rank=4"),
                                   parse_rule("rank=2,max=30,op=natural")};
  const Plan tensor = make_plan(kModel, "tensor", kNatural, rules);
  std::vector<std::size_t> ranks;
  for (const Slice& slice : tensor.layout) ranks.push_back(slice.rank);
  EXPECT_EQ(ranks, (std::vector<std::size_t>{0, 2, 4, 0, 2, 2, 0, 2}));
  EXPECT_EQ(tensor.op(2).spec(), "identity");
  EXPECT_EQ(tensor.op(1).spec(), "natural");
  EXPECT_EQ(names(make_plan(kModel, "whole", kNatural, rules)),
            (std::vector<std::string>{"conv1.weight", "conv1.bias", "fc1.weight", "fc1.bias",
                                      "scale..nothing", "fc2.weight", "fc2.bias"}));
  EXPECT_EQ(parse_rule("name=loop=,rank=3").name, "loop=");
}

TEST(Layout, ARuleThatFitsNothingIsRefusedUnlessItMay) {
  const auto refusal = [](const std::string& rule) {
    return message_of<UsageError>([&] { require_fitting({{parse_rule(rule)}}, kModel); });
  };
  EXPECT_EQ(
      refusal("name=fc9.weight,op=half"),
      "rule 'name=fc9.weight,op=half' fits no tensor of the model, which has conv1.weight "
      "(20, 1, 5, 5), conv1.bias (20,), fc1.weight (500, 80), fc1.bias (500,), scale () and 3 "
      "more; a rule with optional=on may fit none");
  EXPECT_EQ(refusal("name=fc1.*,max=10,rank=2").find("rule 'name=fc1.*,max=10,rank=2' fits no"),
            0U);
  require_fitting({{parse_rule("name=fc9.*,optional=on,op=half")}}, kModel);
  require_fitting({{parse_rule("name=fc1.*,op=half")}}, kModel);
}

TEST(Layout, MistakesAreNamed) {
  const auto refusal = [](const std::string& layout) {
    return message_of<UsageError>([&] { make_plan(kModel, layout, kNatural); });
  };
  EXPECT_EQ(refusal("layer"), "no layout 'layer'; known: fused split tensor whole");
  EXPECT_NE(refusal("fused:x").find("bytes = 4 to"), std::string::npos);
  EXPECT_NE(refusal("tensor+whole").find("one word"), std::string::npos);
  EXPECT_THROW(parse_rule("name=*.bias"), UsageError);
  EXPECT_THROW(parse_rule("size=3,op=natural"), UsageError);
  EXPECT_THROW(parse_rule("op=natrual"), UsageError);
  EXPECT_EQ(parse_rule("op=natural:8,nearest").op.spec(), "natural:8,nearest");
}

TEST(Layout, ModelsThatCannotBeAreRefused) {
  const auto refusal = [](const Model& model) {
    return message_of<UsageError>([&] { make_plan(model, "tensor", kNatural); });
  };
  EXPECT_EQ(refusal({{"a", {2}}, {"b", {2}}, {"a", {3}}}), "the model has two tensors named 'a'");
  EXPECT_EQ(refusal({{"a", {1ULL << 40, 1ULL << 40}}}),
            "tensor 'a' has more entries than can be counted");
  EXPECT_EQ(refusal({{"a", {1ULL << 48}}, {"b", {1}}}),
            "the model has more entries than can be counted");
}

TEST(Layout, AModelWithoutTensorsHasNoSlices) {
  for (const LayoutInfo& info : layouts())
    EXPECT_TRUE(make_plan({}, info.name, kNatural).layout.empty()) << info.name;
}

}  // namespace
}  // namespace laconic::testing
