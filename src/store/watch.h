// What a pull tells its caller, and how the caller stops it. Callbacks run on the thread that pulls; the flag
// may be set from any thread.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <string>

namespace penstock::store {

struct Progress {
  std::string what;          // the file or package in transfer
  uint64_t done_bytes = 0;   // of the whole pull
  uint64_t total_bytes = 0;  // 0: not known yet
  std::string sha256 = {};   // of that file, where the source says
};

struct Watch {
  std::function<void(const Progress&)> on_progress;
  std::function<void(const std::string&)>
      on_note;  // one line for people: "the hub does not answer; trying ..."
  const std::atomic<bool>* cancel = nullptr;

  bool cancelled() const { return cancel != nullptr && cancel->load(); }
  void note(const std::string& text) const {
    if (on_note) on_note(text);
  }
  void progress(const Progress& progress) const {
    if (on_progress) on_progress(progress);
  }
};

}  // namespace penstock::store
