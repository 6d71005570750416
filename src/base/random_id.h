// Ids that nothing else has and nobody guesses. Any thread.
#pragma once

#include <string>
#include <string_view>

namespace penstock::base {

/// The prefix and 24 random hexadecimal digits.
std::string random_id(std::string_view prefix);

}  // namespace penstock::base
