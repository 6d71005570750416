#include "api/effort.h"

#include <algorithm>
#include <array>

namespace penstock::api {

std::optional<std::string> read_effort(const Reader& reader, std::string_view field,
                                       chat::Conversation& conversation) {
  constexpr std::array<std::string_view, 6> kEfforts = {"none", "minimal", "low", "medium", "high", "xhigh"};
  auto effort = reader.string(field);
  if (!effort) return effort;
  if (std::find(kEfforts.begin(), kEfforts.end(), *effort) == kEfforts.end())
    reader.reject(field, "none, minimal, low, medium, high or xhigh");
  if (conversation.template_kwargs.is_null()) conversation.template_kwargs = base::Json::object();
  conversation.template_kwargs.emplace("reasoning_effort", *effort);
  if (*effort == "none") conversation.template_kwargs.emplace("enable_thinking", false);
  return effort;
}

}  // namespace penstock::api
