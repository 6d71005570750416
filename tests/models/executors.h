// The executors that every fixture runs on in this build.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "exec/reference_executor.h"

namespace penstock::models {

struct TestExecutor {
  std::string name;
  std::function<std::unique_ptr<exec::Executor>()> make;
};

inline std::vector<TestExecutor> test_executors() {
  return {{"reference", [] { return std::make_unique<exec::ReferenceExecutor>(); }}};
}

}  // namespace penstock::models
