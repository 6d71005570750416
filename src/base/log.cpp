#include "base/log.h"

#include <memory>
#include <string>

#include <spdlog/sinks/stdout_color_sinks.h>

#include "base/error.h"

namespace penstock::base {

void configure_log(std::string_view level) {
  const auto parsed = spdlog::level::from_str(std::string(level));
  if (parsed == spdlog::level::off && level != "off") {
    throw Error(Code::kInvalidRequest,
                "[base.log] expected a level of debug, info, warn, error, off; got " + std::string(level));
  }
  auto logger =
      std::make_shared<spdlog::logger>("penstock", std::make_shared<spdlog::sinks::stderr_color_sink_mt>());
  logger->set_pattern("%Y-%m-%dT%H:%M:%S.%e %^%l%$ %v");
  logger->set_level(parsed);
  spdlog::set_default_logger(std::move(logger));
}

}  // namespace penstock::base
