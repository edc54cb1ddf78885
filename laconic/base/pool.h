// A few threads that share out numbered pieces of work. Which thread does a piece never changes its
// result.
#pragma once

#include <cstddef>
#include <memory>

namespace laconic {

class Pool {
 public:
  // threads counts the caller; 1 starts none.
  explicit Pool(unsigned threads = 1);
  ~Pool();
  Pool(const Pool&) = delete;
  Pool& operator=(const Pool&) = delete;

  unsigned threads() const;

  // Calls work(piece, thread) for every piece below `pieces`, thread below threads(). The first
  // exception thrown by a piece is thrown again here, after all threads have stopped. Not
  // reentrant.
  template <class Work>
  void each(std::size_t pieces, const Work& work) {
    run(pieces, &work, [](const void* work, std::size_t piece, unsigned thread) {
      (*static_cast<const Work*>(work))(piece, thread);
    });
  }

 private:
  // What `each` was given, as a pointer and a function that knows its type: nothing is allocated.
  using Call = void (*)(const void* work, std::size_t piece, unsigned thread);
  void run(std::size_t pieces, const void* work, Call call);

  struct Shared;
  std::unique_ptr<Shared> shared_;
};

}  // namespace laconic
