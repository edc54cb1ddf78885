// What the files of the C ABI share: exceptions to status, arguments checked, structs of any age
// read and written, handles that end at a fork.
#pragma once

#include <sys/types.h>

#include <algorithm>
#include <exception>
#include <new>

#include "laconic/laconic.h"
#include "laconic/laconic_c.h"

namespace laconic::c {

// The process that has made a handle. Threads and peers do not come along when it forks: in the
// child such a handle refuses everything and is never freed.
class Maker {
 public:
  Maker();
  bool is_here() const;
  void require_here(const std::string& name) const;

 private:
  pid_t process_;
};

}  // namespace laconic::c

struct laconic_operator {
  laconic::Operator op;
};

struct laconic_scratch {
  laconic::Scratch scratch;
  laconic::Buffer out = {};  // what is copied to the caller's buffer once its size is known
  laconic::c::Maker maker = {};
};

struct laconic_transport {
  std::unique_ptr<laconic::Transport> end;
  laconic::c::Maker maker = {};
};

namespace laconic::c {

// The calling thread's sentence: a fixed array, so that telling of a lack of memory takes none.
struct LastError {
  char text[2048] = "";
  int rank = kNobody;  // at fault
  bool fresh = false;  // written since somebody cleared this
};
LastError& last_error();

void remember(const char* text, int rank = kNobody);

template <class Work>
laconic_status guard(Work work) {
  try {
    work();
    return LACONIC_OK;
  } catch (const Error& error) {
    remember(error.what(), error.rank());
    return static_cast<laconic_status>(error.status());
  } catch (const std::bad_alloc&) {
    remember("out of memory");
  } catch (const std::exception& error) {
    remember(error.what());
  } catch (...) {
    remember("an exception of unknown type");
  }
  return LACONIC_SYSTEM;
}

// For functions that return a text: NULL when `work` throws.
template <class Work>
const char* guard_text(Work work) {
  const char* text = nullptr;
  guard([&] { text = work(); });
  return text;
}

// For functions that make a handle: *out is NULL when `make` throws.
template <class Handle, class Make>
laconic_status create(Handle** out, const char* name, Make make) {
  return guard([&] {
    if (!out) throw UsageError("argument '" + std::string(name) + "' is NULL");
    *out = nullptr;
    *out = new Handle(make());
  });
}

template <class Handle>
void destroy(Handle* handle) {
  if (handle && handle->maker.is_here()) delete handle;
}

// Of a handle also that this process has made it.
template <class T>
T& need(T* pointer, const std::string& name) {
  if (!pointer) throw UsageError("argument '" + name + "' is NULL");
  if constexpr (requires { pointer->maker; }) pointer->maker.require_here(name);
  return *pointer;
}

inline constexpr std::uint64_t kMostEntries = std::uint64_t{1} << 48;  // no size made of it wraps

inline std::size_t need_count(std::uint64_t count) {
  if (count > kMostEntries)
    throw UsageError(std::to_string(count) + " entries; allowed: up to 2^48");
  return static_cast<std::size_t>(count);
}

template <class T>
std::span<T> array(T* data, std::size_t count, const std::string& name) {
  if (count > 0) need(data, name);
  return {data, need_count(count)};
}

inline ByteView view(const void* bytes, std::size_t size) {
  return array(static_cast<const std::uint8_t*>(bytes), size, "bytes");
}

// 0 stands for a minute.
double need_timeout(double seconds);

// Copies to the caller's buffer. `size` is what is needed, also when the capacity is too small.
void deliver(ByteView bytes, void* buffer, std::size_t capacity, std::size_t& size);

// The same, but that a NULL buffer only asks for the size.
void deliver_or_measure(ByteView bytes, void* buffer, std::size_t capacity, std::size_t* size);

// The extents, whose product fits in memory sizes.
std::vector<std::uint64_t> shape_of(const std::uint64_t* shape, std::size_t ndim,
                                    const std::string& name);

// What the caller says is the size of its struct.
std::size_t struct_size(const void* from, const char* name);

// Throws UsageError when any of the bytes is not 0: the caller uses fields this library does not
// have.
void refuse_unknown(const char* from, const char* to, const char* name);

// The caller's struct may be older, and then ends early, or newer, and then must not use what is
// new.
template <class T>
T read_struct(const T* from, const char* name) {
  const std::size_t size = struct_size(from, name), known = std::min(size, sizeof(T));
  const auto* bytes = reinterpret_cast<const char*>(from);
  refuse_unknown(bytes + known, bytes + size, name);
  T value{};
  std::memcpy(&value, bytes, known);
  return value;
}

template <class T>
void write_struct(T value, T* to, const char* name) {
  const std::size_t size = struct_size(to, name), known = std::min(size, sizeof(T));
  auto* bytes = reinterpret_cast<char*>(to);
  value.struct_size = size;
  std::memcpy(bytes, &value, known);
  std::memset(bytes + known, 0, size - known);
}

// A built-in recipe's name, a file's name that ends in .json, or JSON text.
Recipe recipe_of(const char* text, const char* name);

}  // namespace laconic::c
