// The C ABI: operators and their working memory.
#include "laconic/c_guard.h"

using namespace laconic;
using namespace laconic::c;

static Keys keys_of(const laconic_keys& keys) {
  return make_keys(keys.seed, keys.step, keys.rank).at(keys.first);
}

laconic_status laconic_scratch_create(unsigned threads, laconic_scratch** scratch) {
  return create(scratch, "scratch", [&] { return laconic_scratch{Scratch(threads)}; });
}

void laconic_scratch_free(laconic_scratch* scratch) { destroy(scratch); }

laconic_status laconic_operator_parse(const char* spec, laconic_operator** op) {
  return create(op, "op", [&] { return laconic_operator{parse_operator(&need(spec, "spec"))}; });
}

void laconic_operator_free(laconic_operator* op) { delete op; }

const char* laconic_operator_spec(const laconic_operator* op) {
  return guard_text([&] { return need(op, "op").op.spec().c_str(); });
}

laconic_status laconic_operator_traits(const laconic_operator* op, size_t count,
                                       laconic_traits* traits) {
  return guard([&] {
    const Traits known = need(op, "op").op.traits(need_count(count));
    write_struct({.struct_size = 0,
                  .unbiased = known.unbiased,
                  .random = known.random,
                  .has_omega = known.omega.has_value(),
                  .has_delta = known.delta.has_value(),
                  .omega = known.omega.value_or(0),
                  .delta = known.delta.value_or(0),
                  .absolute = known.absolute,
                  .shared = known.shared},
                 traits, "traits");
  });
}

laconic_status laconic_operator_max_size(const laconic_operator* op, size_t count, size_t* size) {
  return guard([&] { need(size, "size") = need(op, "op").op.max_size(need_count(count)); });
}

laconic_status laconic_encode(const laconic_operator* op, const float* x, size_t count,
                              const laconic_keys* keys, void* buffer, size_t capacity, size_t* size,
                              int* finite, laconic_scratch* scratch) {
  return guard([&] {
    const auto values = array(x, count, "x");
    const Keys drawn = keys_of(need(keys, "keys"));
    if (capacity > 0) need(static_cast<char*>(buffer), "buffer");
    need(size, "size");
    Buffer& out = need(scratch, "scratch").out;
    out.clear();
    need(finite, "finite") = need(op, "op").op.encode(values, out, drawn, scratch->scratch);
    deliver(out.view(), buffer, capacity, *size);
  });
}

laconic_status laconic_check(const laconic_operator* op, const void* bytes, size_t size,
                             size_t count, const laconic_keys* keys, laconic_scratch* scratch) {
  return guard([&] {
    need(op, "op").op.check(view(bytes, size), need_count(count), keys_of(need(keys, "keys")),
                            need(scratch, "scratch").scratch);
  });
}

laconic_status laconic_add(const laconic_operator* op, const void* bytes, size_t size, float weight,
                           float* y, size_t count, const laconic_keys* keys,
                           laconic_scratch* scratch) {
  return guard([&] {
    need(op, "op").op.add(view(bytes, size), weight, array(y, count, "y"),
                          keys_of(need(keys, "keys")), need(scratch, "scratch").scratch);
  });
}
