// The tools of a Responses request: functions, in the flat form of this API and in groups with a namespace,
// as chat templates and the parsers of calls take them. Pure.
#pragma once

#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "api/reader.h"
#include "base/json.h"

namespace penstock::api::responses {

/// A function as its client calls it; the group is empty for most.
struct ToolName {
  std::string group, name;
};

/// By the name that the model is shown, which has the group in it; functions without a group are not in here.
using ToolNames = std::map<std::string, ToolName>;

struct Tools {
  base::Json shown;          // in the form of chat completions, as templates read them; or null
  base::Json shown_choice;   // the same of tool_choice
  base::Json tools, choice;  // what the response says of them
  ToolNames names;
  std::vector<std::string> dropped;  // hosted ones, which nothing here can run: "tools[1].web_search"
};

/// Reads tools and tool_choice. Hosted tools are dropped, as clients offer them to whatever serves; a choice
/// that needs one is refused.
Tools read_tools(const Reader& reader);

/// The name that the model is shown: "crm__find" for find of the group crm; a border that is there already
/// ("mcp__crm__") is not doubled.
std::string shown_name(const ToolName& name);

}  // namespace penstock::api::responses
