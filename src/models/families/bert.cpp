// bert (also MiniLM), as sentence-transformers runs it: a vector of each text, or the score of a pair of
// texts where there is a head for one label. Reference: transformers and sentence-transformers.
#include "base/error.h"
#include "models/families/decoder.h"
#include "models/families/list.h"
#include "models/sentence_modules.h"

namespace penstock::models {
namespace {

using base::Code;
using base::Error;

bool scores_pairs(ConfigReader& config) {
  const base::Json* architectures = config.find("architectures");
  if (architectures == nullptr || !architectures->is_array() || architectures->empty()) return false;
  return architectures->front() == "BertForSequenceClassification";
}

/// transformers leaves num_labels out of the files it writes; id2label has one entry for each.
int64_t label_count(ConfigReader& config) {
  const base::Json* labels = config.find("id2label");
  const int64_t written = config.positive_or("num_labels", 2);
  return labels != nullptr && labels->is_object() ? static_cast<int64_t>(labels->size()) : written;
}

/// The head of BertForSequenceClassification, for one label.
void read_score_head(ConfigReader& config, ModelSpec& spec) {
  const int64_t labels = label_count(config);
  if (labels != 1) {
    throw Error(
        Code::kUnsupported,
        "[models.bert] expected a classifier of one label, which scores a pair of texts; got one of " +
            std::to_string(labels) + " labels");
  }
  EncoderSpec& encoder = *spec.encoder;
  encoder.task = Task::kScore;
  encoder.pooling = ops::Pooling::kFirst;
  encoder.dense = {{"pooler.dense", spec.hidden, true, ops::Dense::Activation::kTanh},
                   {"classifier", 1, true, score_activation(config)}};
}

}  // namespace

ModelSpec read_bert(ConfigReader& config) {
  ModelSpec spec;
  spec.family = "bert";
  spec.vocab = static_cast<int32_t>(config.positive("vocab_size"));
  spec.hidden = config.positive("hidden_size");
  spec.max_position = static_cast<int32_t>(config.positive_or("max_position_embeddings", 512));
  spec.norm_eps = static_cast<float>(config.number_or("layer_norm_eps", 1e-12));
  LayerSpec layer;
  layer.attention = read_attention(config, spec.hidden);
  layer.attention.rope = -1;
  layer.ffn.width = config.positive("intermediate_size");
  layer.ffn.activation = read_activation(config, "hidden_act", "gelu");
  spec.layers.assign(read_layer_count(config), layer);
  if (const std::string kind = config.text_or("position_embedding_type", "absolute"); kind != "absolute")
    throw Error(Code::kUnsupported,
                "[models.bert] expected absolute as position_embedding_type; got " + kind);
  if (config.flag_or("is_decoder", false))
    throw Error(Code::kUnsupported, "[models.bert] expected an encoder; got is_decoder true");
  EncoderSpec encoder;
  encoder.token_types = static_cast<int32_t>(config.positive_or("type_vocab_size", 2));
  encoder.positions = spec.max_position;
  spec.encoder = encoder;
  if (scores_pairs(config))
    read_score_head(config, spec);
  else
    read_sentence_modules(config, spec);
  return spec;
}

}  // namespace penstock::models
