// A family: how one model_type's config.json becomes a ModelSpec. Their files are in families/, where near
// relatives share one; each model_type has an entry in families/list.h. Pure.
#pragma once

#include <span>
#include <string>
#include <string_view>

#include "base/json.h"
#include "models/config_reader.h"
#include "models/spec.h"

namespace penstock::models {

struct Family {
  std::string_view model_type;              // of config.json
  ModelSpec (*read)(ConfigReader& config);  // throws Error naming the key at fault
};

/// Every family, in the order of families/list.h.
std::span<const Family> families();

/// The spec of a parsed config.json; a nested text_config is read where there is one. Throws
/// Error(kUnsupported) naming near model types when there is no such family.
ModelSpec read_spec(const base::Json& config);

}  // namespace penstock::models
