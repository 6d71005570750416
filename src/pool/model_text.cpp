#include "pool/model_text.h"

#include <fstream>
#include <sstream>
#include <utility>

#include "base/error.h"
#include "pool/model_codec.h"
#include "pool/stop_ids.h"
#include "text/template_files.h"

namespace penstock::pool {
namespace {

using base::Code;
using base::Error;
using base::Json;

std::string read_if_there(const std::filesystem::path& path) {
  std::ifstream in(path, std::ios::binary);
  std::stringstream text;
  if (in) text << in.rdbuf();
  return text.str();
}

Json parse_or_empty(const std::string& text, const std::string& name) {
  return text.empty() ? Json::object() : base::parse_python_json(text, name);
}

/// The texts that text::TemplateFiles points into.
struct TemplateTexts {
  explicit TemplateTexts(const std::filesystem::path& directory)
      : jinja(read_if_there(directory / "chat_template.jinja")),
        tool_use(read_if_there(directory / "additional_chat_templates" / "tool_use.jinja")),
        tokenizer_config(read_if_there(directory / "tokenizer_config.json")),
        template_json(read_if_there(directory / "chat_template.json")) {}
  text::TemplateFiles files() const { return {jinja, tool_use, tokenizer_config, template_json, {}}; }

  const std::string jinja, tool_use, tokenizer_config, template_json;
};

void set_templates(ModelCodec& codec, const text::TemplateFiles& files, text::TemplateSpecials specials,
                   ModelText& out) {
  const auto choice = text::choose_template(files);
  if (!choice) return;
  out.template_origin = choice->origin;
  std::optional<text::ChatTemplate> with_tools;
  if (choice->tool_use) with_tools.emplace(*choice->tool_use, specials);
  codec.set_template(text::ChatTemplate(choice->source, std::move(specials)), std::move(with_tools));
}

Json value_or_null(const Json& object, const char* key) {
  const auto it = object.find(key);
  return it == object.end() ? Json(nullptr) : *it;
}

/// The id of tokenizer_config.json's eos_token, which is given as text or as an added token.
Json eos_of_tokenizer_config(const std::string& config, const text::Tokenizer& tokenizer) {
  const auto specials = text::template_specials(config);
  if (!specials.eos) return nullptr;
  const auto id = tokenizer.token_to_id(*specials.eos);
  return id ? Json(*id) : Json(nullptr);
}

void finish(ModelText& out, const std::shared_ptr<ModelCodec>& codec,
            const std::vector<StopIdSource>& sources) {
  StopIds stops = collect_stop_ids(sources, codec->tokenizer(), codec->template_source());
  out.stop_ids = std::move(stops.ids);
  out.warnings.insert(out.warnings.end(), stops.warnings.begin(), stops.warnings.end());
  out.codec = codec;
}

Json config_eos(const Json& config) {
  const auto nested = config.find("text_config");
  if (nested != config.end() && nested->contains("eos_token_id")) return (*nested)["eos_token_id"];
  return value_or_null(config, "eos_token_id");
}

std::string text_of(const tensor::Gguf& gguf, const char* key) {
  return std::string(gguf.text_or(key, ""));
}

std::optional<int32_t> id_of(const tensor::Gguf& gguf, const char* key) {
  if (!gguf.has(key)) return std::nullopt;
  const int64_t id = gguf.integer(key);
  if (id == -1 || id == UINT32_MAX) return std::nullopt;  // both are written for "none"
  if (id < 0 || id > INT32_MAX) {
    throw Error(Code::kCorrupt,
                std::string("[pool.text] expected a token id as ") + key + "; got " + std::to_string(id));
  }
  return static_cast<int32_t>(id);
}

std::optional<bool> flag_of(const tensor::Gguf& gguf, const char* key) {
  if (!gguf.has(key)) return std::nullopt;
  return gguf.boolean(key);
}

std::optional<std::string> token_text(const text::GgufVocab& vocab, std::optional<int32_t> id) {
  if (!id || *id < 0 || *id >= static_cast<int32_t>(vocab.tokens.size())) return std::nullopt;
  return vocab.tokens[static_cast<size_t>(*id)];
}

}  // namespace

text::GgufVocab gguf_vocab(const tensor::Gguf& gguf) {
  text::GgufVocab vocab;
  vocab.model = text_of(gguf, "tokenizer.ggml.model");
  vocab.pre = text_of(gguf, "tokenizer.ggml.pre");
  vocab.name = text_of(gguf, "general.name");
  for (const auto token : gguf.texts("tokenizer.ggml.tokens")) vocab.tokens.emplace_back(token);
  if (gguf.has("tokenizer.ggml.token_type")) {
    for (const int64_t type : gguf.integers("tokenizer.ggml.token_type"))
      vocab.token_types.push_back(static_cast<int32_t>(type));
  }
  if (gguf.has("tokenizer.ggml.scores")) {
    const auto scores = gguf.numbers("tokenizer.ggml.scores");
    vocab.scores.assign(scores.begin(), scores.end());
  }
  if (gguf.has("tokenizer.ggml.merges")) {
    for (const auto merge : gguf.texts("tokenizer.ggml.merges")) vocab.merges.emplace_back(merge);
  }
  vocab.bos_id = id_of(gguf, "tokenizer.ggml.bos_token_id");
  vocab.eos_id = id_of(gguf, "tokenizer.ggml.eos_token_id");
  vocab.unk_id = id_of(gguf, "tokenizer.ggml.unknown_token_id");
  vocab.add_bos = flag_of(gguf, "tokenizer.ggml.add_bos_token");
  vocab.add_eos = flag_of(gguf, "tokenizer.ggml.add_eos_token");
  vocab.add_space_prefix = flag_of(gguf, "tokenizer.ggml.add_space_prefix");
  return vocab;
}

ModelText read_model_text(const std::filesystem::path& directory, const Json& config) {
  const std::string tokenizer_json = read_if_there(directory / "tokenizer.json");
  if (tokenizer_json.empty()) {
    throw Error(Code::kNotFound,
                "[pool.text] expected tokenizer.json in " + directory.string() + "; got none");
  }
  const TemplateTexts texts(directory);
  const std::string& tokenizer_config = texts.tokenizer_config;
  const std::string generation = read_if_there(directory / "generation_config.json");
  ModelText out;
  auto codec = std::make_shared<ModelCodec>(text::Tokenizer::from_json(tokenizer_json, tokenizer_config));
  set_templates(*codec, texts.files(), text::template_specials(tokenizer_config), out);
  const Json generation_config = parse_or_empty(generation, "generation_config.json");
  out.defaults = read_generation_config(generation_config);
  finish(out, codec,
         {{"config.json", config_eos(config), false},
          {"generation_config.json", value_or_null(generation_config, "eos_token_id"), true},
          {"tokenizer_config.json", eos_of_tokenizer_config(tokenizer_config, codec->tokenizer()), true}});
  return out;
}

std::string chat_template_of(const std::filesystem::path& directory) {
  const TemplateTexts texts(directory);
  const auto choice = text::choose_template(texts.files());
  return choice ? choice->tool_use.value_or(choice->source) : std::string();
}

ModelText read_model_text(const tensor::Gguf& gguf) {
  ModelText out;
  const text::GgufVocab vocab = gguf_vocab(gguf);
  auto codec = std::make_shared<ModelCodec>(text::Tokenizer::from_gguf(vocab));
  const std::string source = text_of(gguf, "tokenizer.chat_template");
  text::TemplateSpecials specials;
  specials.bos = token_text(vocab, vocab.bos_id);
  specials.eos = token_text(vocab, vocab.eos_id);
  specials.unk = token_text(vocab, vocab.unk_id);
  set_templates(*codec, {{}, {}, {}, {}, source}, std::move(specials), out);
  std::vector<StopIdSource> sources;
  for (const char* key :
       {"tokenizer.ggml.eos_token_id", "tokenizer.ggml.eot_token_id", "tokenizer.ggml.eom_token_id"}) {
    if (const auto id = id_of(gguf, key)) sources.push_back({key, Json(*id), true});
  }
  finish(out, codec, sources);
  return out;
}

}  // namespace penstock::pool
