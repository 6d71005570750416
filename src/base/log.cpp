#include "base/log.h"

#include <atomic>
#include <chrono>
#include <memory>
#include <string>

#include <spdlog/fmt/chrono.h>
#include <spdlog/sinks/stdout_color_sinks.h>

#include "base/error.h"
#include "base/log_event.h"

namespace penstock::base {
namespace {

constexpr std::string_view kEventLogger = "event";

std::atomic<bool> is_json = false;

/// For messages of this logger the payload is the rest of the line's object.
std::shared_ptr<spdlog::logger>& event_logger() {
  static std::shared_ptr<spdlog::logger> logger;
  return logger;
}

std::string dump(const Json& json) {
  return json.dump(-1, ' ', false, Json::error_handler_t::replace);
}

class JsonLines : public spdlog::formatter {
 public:
  void format(const spdlog::details::log_msg& message, spdlog::memory_buf_t& out) override {
    const auto ms = std::chrono::duration_cast<std::chrono::milliseconds>(message.time.time_since_epoch());
    const auto seconds = std::chrono::floor<std::chrono::seconds>(message.time);
    std::string line = fmt::format("{{\"time\":\"{:%Y-%m-%dT%H:%M:%S}.{:03}Z\",\"level\":\"{}\",",
                                   fmt::gmtime(std::chrono::system_clock::to_time_t(seconds)),
                                   ms.count() % 1000, to_view(spdlog::level::to_string_view(message.level)));
    const std::string_view text = to_view(message.payload);
    if (to_view(message.logger_name) == kEventLogger) {
      line += text;
    } else {
      line += "\"message\":" + dump(std::string(text)) + "}";
    }
    line += '\n';
    out.append(line.data(), line.data() + line.size());
  }

  std::unique_ptr<spdlog::formatter> clone() const override { return std::make_unique<JsonLines>(); }

 private:
  static std::string_view to_view(const spdlog::string_view_t& view) { return {view.data(), view.size()}; }
};

/// A value as one word of a line of text.
std::string word(const Json& value) {
  if (!value.is_string()) return dump(value);
  const auto& text = value.get_ref<const std::string&>();
  const bool is_plain = !text.empty() && text.find_first_of(" \"=\t\r\n\\") == std::string::npos;
  return is_plain ? text : dump(value);
}

}  // namespace

void configure_log(std::string_view level, std::string_view format) {
  const auto parsed = spdlog::level::from_str(std::string(level));
  if (parsed == spdlog::level::off && level != "off") {
    throw Error(Code::kInvalidRequest,
                "[base.log] expected a level of debug, info, warn, error, off; got " + std::string(level));
  }
  if (format != "text" && format != "json")
    throw Error(Code::kInvalidRequest, "[base.log] expected text or json; got " + std::string(format));
  is_json = format == "json";
  auto sink = std::make_shared<spdlog::sinks::stderr_color_sink_mt>();
  if (is_json) {
    sink->set_formatter(std::make_unique<JsonLines>());
  } else {
    sink->set_pattern("%Y-%m-%dT%H:%M:%S.%e %^%l%$ %v");
  }
  event_logger() = std::make_shared<spdlog::logger>(std::string(kEventLogger), sink);
  event_logger()->set_level(parsed);
  auto logger = std::make_shared<spdlog::logger>("penstock", std::move(sink));
  logger->set_level(parsed);
  spdlog::set_default_logger(std::move(logger));
}

bool logs_events() {
  return event_logger() != nullptr && event_logger()->should_log(spdlog::level::info);
}

void log_event(std::string_view event, const Json& fields) {
  if (!logs_events()) return;
  std::string text;
  if (is_json) {
    Json whole = {{"event", event}};
    whole.update(fields);
    text = dump(whole).substr(1);  // after the brace: time and level come first
  } else {
    text = event;
    for (const auto& [name, value] : fields.items()) text += " " + name + "=" + word(value);
  }
  event_logger()->info("{}", text);
}

}  // namespace penstock::base
