#include "api/anthropic/models.h"

#include <chrono>

#include <fmt/chrono.h>

namespace penstock::api::anthropic {

using base::Json;

Json model_json(const serve::ModelCard& card) {
  const std::chrono::sys_seconds created{std::chrono::seconds(card.created)};
  const Json context = card.context_length > 0 ? Json(card.context_length) : Json();
  return {{"type", "model"},         {"id", card.id},
          {"display_name", card.id}, {"created_at", fmt::format("{:%Y-%m-%dT%H:%M:%SZ}", created)},
          {"lifecycle", "active"},   {"max_input_tokens", context},
          {"max_tokens", context}};
}

Json models_json(const std::vector<serve::ModelCard>& cards) {
  Json data = Json::array();
  for (const serve::ModelCard& card : cards) data.push_back(model_json(card));
  Json page = {{"data", std::move(data)}, {"has_more", false}};
  page["first_id"] = cards.empty() ? Json() : Json(cards.front().id);
  page["last_id"] = cards.empty() ? Json() : Json(cards.back().id);
  return page;
}

}  // namespace penstock::api::anthropic
