// A few threads that share out numbered pieces of work. Which thread does a piece never changes its
// result.
#pragma once

#include <cstddef>
#include <functional>
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
  void each(std::size_t pieces,
            const std::function<void(std::size_t piece, unsigned thread)>& work);

 private:
  struct Shared;
  std::unique_ptr<Shared> shared_;
};

}  // namespace laconic
