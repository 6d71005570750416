// How long a model stays loaded, as requests say it, and times as answers say them. Pure functions.
#pragma once

#include <chrono>
#include <cstdint>
#include <optional>
#include <string>

#include "api/reader.h"
#include "pool/model_pool.h"

namespace penstock::api::ollama {

/// `keep_alive`: seconds as a number, or a duration as Go writes it ("5m", "1h30m"); below zero is for ever.
std::optional<pool::KeepLoaded> read_keep_alive(const Reader& reader);

/// RFC 3339 in UTC with nine decimals: "2026-01-31T12:00:00.123456789Z".
std::string time_text(std::chrono::system_clock::time_point time);
std::string time_text_ms(int64_t unix_ms);
std::string now_text();

/// What never comes, in a form that every client can read.
inline constexpr const char* kNever = "2318-01-01T00:00:00Z";

}  // namespace penstock::api::ollama
