#include "api/ollama/keep_alive.h"

#include <array>
#include <charconv>
#include <cmath>
#include <ctime>
#include <string_view>
#include <utility>

#include <fmt/chrono.h>
#include <fmt/format.h>

namespace penstock::api::ollama {
namespace {

constexpr double kMostSeconds = 100.0 * 365 * 24 * 3600;  // more is for ever

pool::KeepLoaded from_seconds(double seconds) {
  if (seconds < 0 || seconds > kMostSeconds) return pool::kForever;
  return pool::KeepLoaded(std::llround(seconds * 1000));
}

/// The unit at the front of `text` in seconds, which is taken away.
std::optional<double> take_unit(std::string_view& text) {
  // Longer ones first: "ms" begins as "m".
  constexpr std::array<std::pair<std::string_view, double>, 8> kUnits = {{{"ns", 1e-9},
                                                                          {"us", 1e-6},
                                                                          {"\u00b5s", 1e-6},
                                                                          {"\u03bcs", 1e-6},
                                                                          {"ms", 1e-3},
                                                                          {"s", 1},
                                                                          {"m", 60},
                                                                          {"h", 3600}}};
  for (const auto& [unit, seconds] : kUnits) {
    if (!text.starts_with(unit)) continue;
    text.remove_prefix(unit.size());
    return seconds;
  }
  return std::nullopt;
}

/// "1h30m", "-1", "1.5s"; a number without a unit is seconds.
std::optional<double> parse_duration(std::string_view text) {
  const bool is_negative = text.starts_with('-');
  if (is_negative || text.starts_with('+')) text.remove_prefix(1);
  double total = 0;
  bool is_first = true;
  while (!text.empty() || is_first) {
    double number = 0;
    const auto [end, error] =
        std::from_chars(text.data(), text.data() + text.size(), number, std::chars_format::fixed);
    if (error != std::errc{} || !std::isfinite(number) || number < 0) return std::nullopt;
    text.remove_prefix(static_cast<size_t>(end - text.data()));
    if (text.empty() && is_first) return is_negative ? -number : number;
    const auto unit = take_unit(text);
    if (!unit) return std::nullopt;
    total += number * *unit;
    is_first = false;
  }
  return is_negative ? -total : total;
}

}  // namespace

std::optional<pool::KeepLoaded> read_keep_alive(const Reader& reader) {
  const base::Json* value = reader.find("keep_alive");
  if (value == nullptr) return std::nullopt;
  if (value->is_number()) return from_seconds(value->get<double>());
  if (value->is_string()) {
    if (value->get_ref<const std::string&>().empty()) return std::nullopt;
    if (const auto seconds = parse_duration(value->get_ref<const std::string&>()))
      return from_seconds(*seconds);
  }
  reader.reject("keep_alive", "seconds, or a duration as 5m or 1h30m");
}

std::string time_text(std::chrono::system_clock::time_point time) {
  const auto since = std::chrono::duration_cast<std::chrono::nanoseconds>(time.time_since_epoch()).count();
  constexpr int64_t kSecond = 1'000'000'000;
  const int64_t seconds = since >= 0 ? since / kSecond : (since - kSecond + 1) / kSecond;
  return fmt::format("{:%Y-%m-%dT%H:%M:%S}.{:09}Z", fmt::gmtime(static_cast<std::time_t>(seconds)),
                     since - seconds * kSecond);
}

std::string time_text_ms(int64_t unix_ms) {
  return time_text(std::chrono::system_clock::time_point(std::chrono::milliseconds(unix_ms)));
}

std::string now_text() {
  return time_text(std::chrono::system_clock::now());
}

}  // namespace penstock::api::ollama
