#include "pool/stop_ids.h"

#include <set>

#include <fmt/format.h>

namespace penstock::pool {
namespace {

constexpr const char* kTurnEnders[] = {"<|im_end|>", "<end_of_turn>", "<|eot_id|>", "<|end_of_text|>",
                                       "<|end|>",    "<|endoftext|>", "</s>",       "<|eom_id|>"};

void add_source(const StopIdSource& source, const text::Tokenizer& tokenizer, std::set<int32_t>& ids,
                std::vector<std::string>& warnings) {
  const base::Json list = source.ids.is_array() ? source.ids : base::Json::array({source.ids});
  for (const base::Json& entry : list) {
    if (entry.is_null()) continue;
    if (!entry.is_number_integer() || entry.get<int64_t>() < 0 ||
        entry.get<int64_t>() >= tokenizer.vocab_size()) {
      warnings.push_back(fmt::format("{}: stop id {} is not in the vocabulary of {} tokens; ignored",
                                     source.file, entry.dump(), tokenizer.vocab_size()));
      continue;
    }
    const auto id = entry.get<int32_t>();
    if (!source.trusted && !tokenizer.is_special(id)) {
      warnings.push_back(fmt::format("{}: stop id {} is the ordinary text '{}'; ignored", source.file, id,
                                     tokenizer.piece(id)));
      continue;
    }
    ids.insert(id);
  }
}

}  // namespace

StopIds collect_stop_ids(const std::vector<StopIdSource>& sources, const text::Tokenizer& tokenizer,
                         std::string_view template_source) {
  StopIds result;
  std::set<int32_t> ids;
  for (const StopIdSource& source : sources) add_source(source, tokenizer, ids, result.warnings);
  for (const char* ender : kTurnEnders) {
    if (template_source.find(ender) == std::string::npos) continue;
    if (const auto id = tokenizer.token_to_id(ender); id && tokenizer.is_special(*id)) ids.insert(*id);
  }
  result.ids.assign(ids.begin(), ids.end());
  return result;
}

}  // namespace penstock::pool
