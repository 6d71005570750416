// penstock embed: texts in, their vectors out as JSON.
#include <future>
#include <iostream>
#include <memory>
#include <string>

#include <fmt/format.h>
#include <unistd.h>

#include "base/error.h"
#include "cli/models.h"
#include "cli/settings_flags.h"
#include "serve/texts.h"

namespace penstock::cli {
namespace {

struct EmbedOptions {
  std::string model;
  std::vector<std::string> texts;
  std::optional<int64_t> dimensions;
  bool truncate = false;
};

/// The arguments, else the lines of standard input.
std::vector<std::string> read_texts(const EmbedOptions& options) {
  if (!options.texts.empty()) return options.texts;
  if (isatty(STDIN_FILENO) != 0) {
    throw base::Error(base::Code::kInvalidRequest,
                      "[cli.embed] expected texts as arguments or lines of standard input; got none");
  }
  std::vector<std::string> texts;
  for (std::string line; std::getline(std::cin, line);) {
    if (line.ends_with('\r')) line.pop_back();
    texts.push_back(line);
  }
  if (texts.empty())
    throw base::Error(base::Code::kInvalidRequest, "[cli.embed] expected lines on standard input; got none");
  return texts;
}

engine::Encoded encode(engine::Encoder& encoder, engine::EncodeJob job) {
  std::promise<engine::Encoded> done;
  encoder.encode(std::move(job), [&done](engine::Encoded encoded) { done.set_value(std::move(encoded)); });
  engine::Encoded encoded = done.get_future().get();
  if (encoded.finish != engine::Finish::kStop)
    throw base::Error(base::Code::kInternal, "[cli.embed] expected vectors; got " + encoded.error);
  return encoded;
}

void print(const std::vector<float>& values, size_t width) {
  std::string out = R"({"embeddings": [)";
  for (size_t at = 0; at < values.size(); at += width) {
    out += at == 0 ? "[" : "], [";
    for (size_t i = 0; i < width; ++i)
      fmt::format_to(std::back_inserter(out), "{}{}", i == 0 ? "" : ", ", values[at + i]);
  }
  std::cout << out << "]]}" << std::endl;
}

int run(const Program& program, const EmbedOptions& options, const config::Settings& settings) {
  const store::Located located = locate_or_pull(program, options.model);
  const auto model = pool::load_model(located.path, load_options(settings, located));
  chat::EncodeRequest request;
  chat::Embed embed;
  for (std::string& text : read_texts(options)) embed.texts.emplace_back(std::move(text));
  embed.dimensions = options.dimensions;
  request.input = std::move(embed);
  request.field = "text";
  request.truncate = options.truncate;
  serve::check(request, *model);
  engine::Encoded encoded = encode(*model->encoder, serve::prepare_texts(request, *model));
  const auto width = static_cast<size_t>(model->encoder->width());
  const auto kept = static_cast<size_t>(options.dimensions.value_or(model->encoder->width()));
  print(serve::first_dimensions(std::move(encoded.values), width, kept), kept);
  return kDone;
}

}  // namespace

void add_embed(CLI::App& app, Program& program) {
  auto options = std::make_shared<EmbedOptions>();
  CLI::App* command = app.add_subcommand("embed", "Print the vectors of texts as JSON");
  command->add_option("model", options->model, "Alias, org/name or folder of an encoder")->required();
  command->add_option("texts", options->texts, "The texts; without them each line of standard input is one");
  command->add_option("--dimensions", options->dimensions, "Only so many of each vector, of length 1 again")
      ->check(CLI::Range(1, INT32_MAX));
  command->add_flag("--truncate", options->truncate, "Cut texts that are too long; else they are an error");
  auto settings = std::make_shared<SettingsFlags>(
      *command, std::vector<std::string>{"executor", "cpu_instructions", "exact", "threads", "memory_guard",
                                         "memory_limit", "log_level"});
  set_examples(*command,
               "  penstock embed all-minilm \"first text\" \"second text\"\n"
               "  cut -f2 notes.tsv | penstock embed all-minilm --truncate --dimensions 128");
  command->callback(
      [options, settings, &program] { program.exit = run(program, *options, settings->load(program)); });
}

}  // namespace penstock::cli
