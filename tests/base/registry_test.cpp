// A registry: sorted by name, one entry to a name.
#include "laconic/base/registry.h"

#include "tests/support.h"

namespace laconic::testing {
namespace {

struct Thing {
  std::string name;
  int value;
};

TEST(Registry, IsSortedAndNamesWhatItKnows) {
  Registry<Thing> things("thing");
  things.add({"b", 2});
  things.add({"a", 1});
  EXPECT_EQ(things.all()[0].name, "a");
  EXPECT_EQ(things.at("b").value, 2);
  EXPECT_EQ(message_of<UsageError>([&] { things.at("c"); }), "no thing 'c'; known: a b");
}

TEST(Registry, RefusesASecondOfTheSameName) {
  Registry<Thing> things("thing");
  things.add({"a", 1});
  EXPECT_THROW(things.add({"a", 2}), std::logic_error);
  EXPECT_EQ(things.all().size(), 1U);
  EXPECT_EQ(things.at("a").value, 1);
}

}  // namespace
}  // namespace laconic::testing
