// The C ABI: errors, versions, what there is. Each function here and in c_*.cpp checks its
// arguments, calls the library and turns exceptions into a status.
#include "laconic/laconic_c.h"

#include <unistd.h>

#include "laconic/c_guard.h"

namespace laconic::c {

static_assert(LACONIC_SYSTEM == static_cast<int>(Status::system));
static_assert(LACONIC_USAGE == static_cast<int>(Status::usage));
static_assert(LACONIC_DATA == static_cast<int>(Status::data));
static_assert(LACONIC_TRANSPORT == static_cast<int>(Status::transport));

LastError& last_error() {
  thread_local LastError error;
  return error;
}

// The text may be the last error itself.
void remember(const char* text, int rank) {
  LastError& error = last_error();
  const std::size_t size = std::min(std::strlen(text), sizeof error.text - 1);
  std::memmove(error.text, text, size);
  error.text[size] = '\0';
  error.rank = rank;
  error.fresh = true;
}

Maker::Maker() : process_(getpid()) {}

bool Maker::is_here() const { return getpid() == process_; }

void Maker::require_here(const std::string& name) const {
  if (!is_here())
    throw UsageError("'" + name + "' is of process " + std::to_string(process_) +
                     ", which has forked this one; allowed: handles made here");
}

double need_timeout(double seconds) {
  constexpr double kMinute = 60;
  return seconds == 0 ? kMinute : Deadline::in(seconds, "").seconds;
}

void deliver(ByteView bytes, void* buffer, std::size_t capacity, std::size_t& size) {
  size = bytes.size();
  if (size > capacity)
    throw UsageError("the buffer has " + std::to_string(capacity) +
                     " bytes; needed: " + std::to_string(size));
  if (size > 0) std::memcpy(buffer, bytes.data(), size);
}

void deliver_or_measure(ByteView bytes, void* buffer, std::size_t capacity, std::size_t* size) {
  need(size, "size") = bytes.size();
  if (buffer) deliver(bytes, buffer, capacity, *size);
}

Recipe recipe_of(const char* text, const char* name) {
  const std::string given = &need(text, name);
  return given.starts_with('{') ? read_recipe(given) : find_recipe(given);
}

std::vector<std::uint64_t> shape_of(const std::uint64_t* shape, std::size_t ndim,
                                    const std::string& name) {
  constexpr std::size_t kMostDimensions = 64;  // as docs/frame.md
  if (ndim > kMostDimensions)
    throw UsageError("'" + name + "' has " + std::to_string(ndim) + " dimensions; allowed: up to " +
                     std::to_string(kMostDimensions));
  const auto extents = array(shape, ndim, name);
  std::uint64_t product = 1;  // counting zeros as one, so that it cannot wrap around unseen
  for (const std::uint64_t extent : extents) {
    if (extent > kMostEntries / product)
      throw UsageError("'" + name + "' has more than 2^48 entries");
    product *= std::max<std::uint64_t>(extent, 1);
  }
  return {extents.begin(), extents.end()};
}

std::size_t struct_size(const void* from, const char* name) {
  constexpr std::size_t kLargest = 4096;  // far above any struct; bounds what is read
  std::size_t size = 0;
  std::memcpy(&size, &need(static_cast<const char*>(from), name), sizeof size);
  if (size < sizeof size || size > kLargest)
    throw UsageError("struct_size of '" + std::string(name) + "' is " + std::to_string(size) +
                     "; allowed: the struct's sizeof");
  return size;
}

void refuse_unknown(const char* from, const char* to, const char* name) {
  if (std::any_of(from, to, [](char c) { return c != 0; }))
    throw UsageError("'" + std::string(name) + "' uses fields that this library, version " +
                     LACONIC_VERSION + ", does not have");
}

namespace {

struct Entry {
  std::string name, summary, paper;
};
using Table = std::vector<Entry>;

template <class Info>
Table table_of(const std::vector<Info>& infos) {
  Table table;
  for (const Info& info : infos) table.push_back({info.name, info.summary, info.paper});
  return table;
}

Table table_of(const std::vector<Recipe>& recipes) {
  Table table;
  for (const Recipe& recipe : recipes) table.push_back({recipe.name, recipe.summary, ""});
  return table;
}

Table table_of(const std::vector<std::string>& names) {
  Table table;
  for (const std::string& name : names) table.push_back({name, "", ""});
  return table;
}

// Copies, so that texts stay where they are for as long as the library is loaded. In the order of
// laconic_kind; instruction sets stand apart, as asking for them is not for several threads.
const Table& table_at(int kind) {
  static const std::vector<Table> tables = {table_of(stages()),     table_of(memories()),
                                            table_of(layouts()),    table_of(exchanges()),
                                            table_of(transports()), table_of(example_specs())};
  if (kind >= 0 && static_cast<std::size_t>(kind) < tables.size())
    return tables[static_cast<std::size_t>(kind)];
  static const Table of_recipes = table_of(recipes());
  if (kind == LACONIC_RECIPES) return of_recipes;
  if (kind != LACONIC_CPUS)
    throw UsageError("no laconic_kind " + std::to_string(kind) + "; known: 0 to " +
                     std::to_string(LACONIC_RECIPES));
  static const Table cpus = table_of(cpu_targets());
  return cpus;
}

const char* text_at(int kind, std::size_t i, std::string Entry::*field) {
  return guard_text([&] {
    const Table& table = table_at(kind);
    if (i >= table.size())
      throw UsageError("no entry " + std::to_string(i) + " of " + std::to_string(table.size()));
    return (table[i].*field).c_str();
  });
}

}  // namespace
}  // namespace laconic::c

using namespace laconic;
using namespace laconic::c;

const char* laconic_last_error(void) { return last_error().text; }

int laconic_last_rank(void) { return last_error().rank; }

void laconic_set_error(const char* text) { remember(text ? text : ""); }

unsigned laconic_abi(void) { return LACONIC_ABI; }

const char* laconic_version(void) { return LACONIC_VERSION; }

unsigned laconic_data_version(void) { return kDataVersion; }

size_t laconic_count(int kind) {
  size_t count = 0;
  guard([&] { count = table_at(kind).size(); });
  return count;
}

const char* laconic_name(int kind, size_t i) { return text_at(kind, i, &Entry::name); }

const char* laconic_summary(int kind, size_t i) { return text_at(kind, i, &Entry::summary); }

const char* laconic_paper(int kind, size_t i) { return text_at(kind, i, &Entry::paper); }

laconic_status laconic_use_cpu(const char* name) {
  return guard([&] { use_cpu(&need(name, "name")); });
}

const char* laconic_cpu(void) {
  return guard_text([] {
    const std::string name = cpu_in_use();
    for (const Entry& entry : table_at(LACONIC_CPUS))
      if (entry.name == name) return entry.name.c_str();
    throw SystemError("the instruction set '" + name + "' is not in the list");
  });
}

laconic_status laconic_recipe_json(const char* recipe, char* buffer, size_t capacity,
                                   size_t* size) {
  return guard([&] {
    const std::string text = write_recipe(recipe_of(recipe, "recipe"));
    const ByteView with_zero(reinterpret_cast<const std::uint8_t*>(text.c_str()), text.size() + 1);
    deliver_or_measure(with_zero, buffer, capacity, size);
  });
}

laconic_status laconic_recipe_check(const char* recipe) {
  return guard([&] { check_recipe(recipe_of(recipe, "recipe")); });
}
