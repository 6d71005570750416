#include "api/openai/models.h"

#include <utility>

namespace penstock::api::openai {

using base::Json;

Json model_json(const serve::ModelCard& card) {
  const bool is_known = card.context_length > 0;
  const auto known = [&](auto value) { return is_known ? Json(std::move(value)) : Json(); };
  Json capabilities = {{"chat_completion", known(card.has_template)}, {"completion", true}};
  return {{"id", card.id},
          {"object", "model"},
          {"created", card.created},
          {"owned_by", "penstock"},
          {"loaded", card.loaded},
          {"context_window", known(card.context_length)},
          {"max_model_len", known(card.context_length)},
          {"capabilities", std::move(capabilities)},
          {"aliases", card.names},
          {"penstock",
           {{"family", known(card.family)},
            {"format", known(card.format)},
            {"executor", known(card.executor)},
            {"loading", card.loading},
            {"pinned", card.pinned},
            {"in_use", card.leases}}}};
}

Json models_json(const std::vector<serve::ModelCard>& cards) {
  Json body = {{"object", "list"}, {"data", Json::array()}};
  for (const serve::ModelCard& card : cards) body["data"].push_back(model_json(card));
  return body;
}

}  // namespace penstock::api::openai
