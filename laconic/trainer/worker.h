// One rank of a run: its replica, its share of the data and the way from gradients to steps.
#pragma once

#include <chrono>

#include "laconic/trainer/descent.h"
#include "laconic/trainer/evaluation.h"
#include "laconic/trainer/run.h"
#include "laconic/trainer/schedule.h"
#include "laconic/trainer/train.h"

namespace laconic::trainer {

class Worker {
 public:
  // Refers to run and transport. All ranks' workers are made at the same time.
  Worker(const Run& run, Transport& transport);

  // From where the run stands to its end, or to where somebody wishes it to stop.
  void train();

  Result result() const;

 private:
  void compare_notes();
  void one_step();
  void learn(bool as_they_come);
  void trace(const StepStats& stats, double computed, double ended);
  void finish();
  void compare_replicas();
  void ask_to_stop();
  std::vector<int> neighbours() const;
  void evaluate();
  void checkpoint();
  void restore(const Checkpoint& from);
  void leave_model();
  void note_regrouping() const;

  StepInfo info(std::uint64_t step) const;
  bool wishes_to_stop() const;
  std::uint64_t epoch_images() const {
    return batches_.steps_per_epoch() * run_.settings.workers * run_.settings.batch;
  }
  // Takes note of a step and of how long it kept the worker waiting.
  void account(const StepStats& stats, double seconds);
  // Does something and takes note of what it sent beside the steps.
  template <class F>
  void aside(F f);
  // Up to now: whatever this rank has sent, by whom ever.
  const Totals& totals();
  void show_progress() const;

  const Run& run_;
  Transport& transport_;
  Group group_;
  TrafficMeter meter_;  // from here on
  Replica replica_;
  Batches batches_;
  Descent descent_;
  Schedule schedule_;
  Course course_;
  std::uint64_t bytes_before_ = 0, rounds_before_ = 0;  // of the run, sent before that
  double loss_sum_ = 0;
  bool stopping_ = false;
  std::uint64_t first_step_ = 0;
  std::chrono::steady_clock::time_point started_ = std::chrono::steady_clock::now();
};

}  // namespace laconic::trainer
