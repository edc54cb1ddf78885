// The C header from a C++17 program, which need know nothing else of the library.
#include "laconic/laconic_c.h"

#include <cstdio>
#include <type_traits>

static_assert(std::is_trivially_copyable_v<laconic_method_options> &&
              std::is_standard_layout_v<laconic_method_options>);
static_assert(std::is_trivially_copyable_v<laconic_callbacks> &&
              std::is_standard_layout_v<laconic_callbacks>);

int main() {
  laconic_traits traits{};
  traits.struct_size = sizeof traits;
  laconic_operator* op = nullptr;
  const bool right = laconic_abi() == LACONIC_ABI &&
                     laconic_operator_parse("natural", &op) == LACONIC_OK &&
                     laconic_operator_traits(op, 1, &traits) == LACONIC_OK && traits.unbiased != 0;
  laconic_operator_free(op);
  if (!right) std::puts(laconic_last_error());
  return right ? 0 : 1;
}
