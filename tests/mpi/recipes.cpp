// Every built-in recipe gives the same model, bit for bit, over MPI and with threads:
// mpirun -n 4 mpi_recipes. Each process compares its own rank's.
#include "tests/methods/courses.h"

namespace laconic::testing {
namespace {

TEST(MpiRecipes, TheSameModelAsWithThreads) {
  const auto transport = make_mpi_transport();
  for (const Recipe& recipe : recipes()) {
    SCOPED_TRACE(recipe.name);
    const Course course = course_of(recipe);
    const auto over_mpi = follow(course, *transport);
    const auto threads = run(course, transport->size());
    EXPECT_EQ(over_mpi, threads[static_cast<std::size_t>(transport->rank())]);
  }
}

}  // namespace
}  // namespace laconic::testing
