// Base64 of RFC 4648 with padding. Pure.
#pragma once

#include <cstddef>
#include <span>
#include <string>

namespace penstock::base {

std::string base64(std::span<const std::byte> bytes);

}  // namespace penstock::base
