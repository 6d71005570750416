// SIGTERM and SIGINT as something to wait for. Make one in main() before any thread starts: new threads
// inherit the blocked signals, so that only wait() sees them.
#pragma once

namespace penstock::api {

class ShutdownSignals {
 public:
  ShutdownSignals();

  /// Waits for the first signal and returns it. From then on a second one ends the process at once, with
  /// status 130 for SIGINT and 1 for SIGTERM.
  int wait() const;
};

}  // namespace penstock::api
