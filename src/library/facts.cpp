#include "library/facts.h"

#include <algorithm>
#include <cctype>
#include <chrono>
#include <type_traits>
#include <variant>
#include <vector>

#include "base/digest.h"
#include "base/error.h"
#include "formats/format.h"
#include "models/model_files.h"
#include "pool/model_text.h"
#include "store/registry.h"
#include "tensor/gguf.h"

namespace penstock::library {
namespace {

namespace fs = std::filesystem;
using base::Json;

std::vector<fs::path> files_of(const fs::path& path) {
  std::error_code error;
  if (!fs::is_directory(path, error)) return {path};
  std::vector<fs::path> files;
  for (const auto& entry : fs::directory_iterator(path, error)) {
    if (entry.is_regular_file(error)) files.push_back(entry.path());
  }
  std::sort(files.begin(), files.end());
  return files;
}

bool is_weights(const fs::path& file) {
  return file.extension() == ".safetensors" || file.extension() == ".gguf";
}

/// The name of what a link of the hub's cache leads to.
std::string digest_of_file(const fs::path& file) {
  std::error_code error;
  std::string name = fs::canonical(file, error).filename().string();
  return base::is_hex(name, 64) ? name : std::string();
}

/// Empty where that of one file is not known.
std::string digest_of(const std::vector<fs::path>& files) {
  std::vector<std::string> digests;
  for (const fs::path& file : files) {
    if (is_weights(file)) digests.push_back(digest_of_file(file));
  }
  const bool is_known = !digests.empty() &&
                        std::none_of(digests.begin(), digests.end(), [](const auto& d) { return d.empty(); });
  return is_known ? joined_digest(digests) : std::string();
}

int64_t unix_ms_of(fs::file_time_type time) {
  const auto system = std::chrono::file_clock::to_sys(time);
  return std::chrono::duration_cast<std::chrono::milliseconds>(system.time_since_epoch()).count();
}

/// Metadata that is one value; lists, such as the vocabulary, are null.
Json json_of(const tensor::GgufValue& value) {
  return std::visit(
      [](const auto& v) -> Json {
        using T = std::decay_t<decltype(v)>;
        if constexpr (std::is_same_v<T, std::string_view>) {
          return std::string(v);
        } else if constexpr (std::is_arithmetic_v<T>) {
          return v;
        } else {
          return nullptr;
        }
      },
      value);
}

/// The format's name is written as its makers do: "Q4_1".
void describe_gguf(const tensor::Gguf& gguf, Facts& facts) {
  std::transform(facts.quantisation.begin(), facts.quantisation.end(), facts.quantisation.begin(),
                 [](unsigned char c) { return std::toupper(c); });
  for (const auto& [key, value] : gguf.metadata()) {
    if (key != "tokenizer.chat_template") facts.info[key] = json_of(value);
  }
  facts.chat_template = gguf.text_or("tokenizer.chat_template", "");
  facts.licence = gguf.text_or("general.license", "");
}

void describe_directory(const models::ModelFiles& files, Facts& facts) {
  const std::string& family = files.plan.family;
  facts.info["general.architecture"] = family;
  facts.info[family + ".context_length"] = files.plan.max_position;
  facts.info[family + ".embedding_length"] = files.plan.hidden;
  facts.info[family + ".block_count"] = files.spec.layers.size();
  if (!files.spec.layers.empty()) {
    const auto& first = files.spec.layers.front();
    facts.info[family + ".feed_forward_length"] = first.ffn.width;
    facts.info[family + ".attention.head_count"] = first.attention.q_heads;
    facts.info[family + ".attention.head_count_kv"] = first.attention.kv_heads;
  }
  facts.info[family + ".vocab_size"] = files.plan.vocab;
  facts.chat_template = pool::chat_template_of(files.path);
}

void describe(const fs::path& path, Facts& facts) {
  const models::ModelFiles files = models::open_model(path);
  facts.family = files.plan.family;
  facts.quantisation = files.format;
  facts.context_length = files.plan.max_position;
  for (const auto& weight : files.plan.weights) facts.parameters += weight.rows * weight.cols;
  if (const tensor::Gguf* gguf = files.checkpoint->gguf()) {
    describe_gguf(*gguf, facts);
  } else {
    describe_directory(files, facts);
  }
  facts.info["general.parameter_count"] = facts.parameters;
  const formats::OutputFormat output = formats::detect(facts.chat_template);
  facts.calls_tools = output.tools != nullptr;
  facts.has_reasoning = output.reasoning != nullptr;
  if (const store::Alias* alias = store::alias_of_file(path)) facts.licence = alias->licence;
}

}  // namespace

std::string joined_digest(const std::vector<std::string>& digests) {
  if (digests.size() == 1) return digests.front();
  std::string joined;
  for (const std::string& digest : digests) joined += digest;
  return base::sha256(joined);
}

Facts read_facts(const fs::path& path) {
  Facts facts;
  std::error_code error;
  const std::vector<fs::path> files = files_of(path);
  for (const fs::path& file : files) {
    facts.size_bytes += fs::file_size(file, error);
    const auto time = fs::last_write_time(file, error);
    if (!error) facts.modified_ms = std::max(facts.modified_ms, unix_ms_of(time));
  }
  facts.container = path.extension() == ".gguf" ? "gguf" : "safetensors";
  facts.sha256 = digest_of(files);
  try {
    describe(path, facts);
  } catch (const base::Error& why) {
    facts.problem = why.text();
  } catch (const std::exception& why) {
    facts.problem = why.what();
  }
  return facts;
}

}  // namespace penstock::library
