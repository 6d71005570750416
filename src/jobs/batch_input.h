// The input file of a batch: JSON lines, each a request with a name of its own. Pure.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "base/json.h"

namespace penstock::jobs {

struct BatchInputLine {
  std::string custom_id;
  std::string body;  // JSON
};

struct BatchInput {
  std::vector<BatchInputLine> lines;
  base::Json errors =
      base::Json::array();  // {"code", "message", "param", "line"}, at most 20; none if it is good
};

/// Up to 50,000 requests for `endpoint`.
BatchInput read_batch_input(std::string_view text, std::string_view endpoint);

}  // namespace penstock::jobs
