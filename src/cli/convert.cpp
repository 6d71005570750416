// penstock convert: any model to an MLX directory.
#include "convert/convert.h"

#include <iostream>
#include <map>
#include <memory>

#include <fmt/format.h>

#include "base/error.h"
#include "cli/models.h"
#include "cli/settings_flags.h"
#include "pool/executors.h"

namespace penstock::cli {
namespace {

using base::Json;

struct ConvertOptions {
  std::string source, destination, mode, dtype;
  int bits = 0;        // 0: not given
  int group_size = 0;  // 0: not given
  bool dequantize = false, force = false, json = false;
};

[[noreturn]] void refuse(const std::string& expected, const std::string& got) {
  throw base::Error(base::Code::kInvalidRequest, "[cli.convert] expected " + expected + "; got " + got);
}

std::optional<quant::Params> format_of(const ConvertOptions& options) {
  if (options.mode.empty() && options.bits == 0) {
    if (options.group_size != 0) refuse("--bits or --mode beside --group-size", "neither");
    return std::nullopt;
  }
  static const std::map<std::string, quant::Params> kUsual = {{"affine", {"affine", 64, 4}},
                                                              {"mxfp4", {"mxfp4", 32, 4}},
                                                              {"mxfp8", {"mxfp8", 32, 8}},
                                                              {"nvfp4", {"nvfp4", 16, 4}}};
  quant::Params params = kUsual.at(options.mode.empty() ? "affine" : options.mode);
  const quant::Params usual = params;
  if (options.bits != 0) params.bits = options.bits;
  if (options.group_size != 0) params.group_size = options.group_size;
  const std::string got = fmt::format("{} bits and group {}", params.bits, params.group_size);
  if (params.mode != "affine" && params != usual)
    refuse(fmt::format("{} bits and group {} with {}", usual.bits, usual.group_size, usual.mode), got);
  if (params.mode == "affine" && params.group_size == 16) refuse("a group of 32, 64 or 128 with affine", got);
  return params;
}

std::optional<tensor::DType> dtype_of(const std::string& name) {
  if (name == "float16") return tensor::DType::kF16;
  if (name == "bfloat16") return tensor::DType::kBF16;
  if (name == "float32") return tensor::DType::kF32;
  return std::nullopt;
}

convert::Options convert_options(const ConvertOptions& given, const config::Settings& settings) {
  convert::Options options;
  options.wish = {format_of(given), given.dequantize, dtype_of(given.dtype)};
  options.force = given.force;
  options.threads = settings.threads > 0 ? static_cast<int>(settings.threads) : pool::usable_cores();
  const store::Watch watch = watch_on_terminal();
  options.cancel = watch.cancel;
  options.on_note = watch.on_note;
  options.on_progress = [watch](uint64_t done, uint64_t total, const std::string& name) {
    watch.progress({name, done, total});
  };
  return options;
}

void print_json(const convert::Summary& summary, const std::string& source) {
  Json tensors = Json::array();
  for (const auto& tally : summary.tallies) {
    tensors.push_back({{"from", tally.from},
                       {"to", tally.to},
                       {"how", convert::describe(tally.effect)},
                       {"count", tally.count}});
  }
  Json files = Json::array();
  for (const auto& [name, bytes] : summary.files) files.push_back({{"name", name}, {"size_bytes", bytes}});
  const Json out = {{"source", source},
                    {"path", summary.path.string()},
                    {"size_bytes", summary.size_bytes},
                    {"files", files},
                    {"tensors", tensors},
                    {"quantization", summary.quantization},
                    {"resumed", summary.resumed}};
  std::cout << out.dump() << std::endl;
}

void print_text(const convert::Summary& summary) {
  for (const auto& tally : summary.tallies) {
    std::cout << fmt::format("{:5} {:25} {} {}\n", tally.count, tally.from,
                             tally.from == tally.to ? std::string() : "-> " + tally.to,
                             convert::describe(tally.effect));
  }
  std::cout << fmt::format("{} ({:.1f} MB of weights)\n", summary.path.string(),
                           static_cast<double>(summary.size_bytes) / 1e6);
}

void run(const Program& program, const ConvertOptions& given, const config::Settings& settings) {
  const convert::Options options = convert_options(given, settings);
  const store::Located located = locate_or_pull(program, given.source);
  const convert::Summary summary =
      convert::convert(models::open_model(located.path), given.destination, options);
  if (given.json) {
    print_json(summary, located.path.string());
  } else {
    print_text(summary);
  }
}

}  // namespace

void add_convert(CLI::App& app, Program& program) {
  auto options = std::make_shared<ConvertOptions>();
  CLI::App* command = app.add_subcommand(
      "convert", "Write a model as an MLX directory; without --bits and --mode no value changes");
  command->add_option("source", options->source, "Alias, org/name, folder or .gguf file")->required();
  command->add_option("destination", options->destination, "Folder to write; an interrupted one goes on")
      ->required();
  command->add_option("--bits", options->bits, "Bits of a weight")->check(CLI::IsMember({2, 3, 4, 5, 6, 8}));
  command->add_option("--group-size", options->group_size, "Weights that share a scale")
      ->check(CLI::IsMember({16, 32, 64, 128}));
  command->add_option("--mode", options->mode, "Format of quantised weights; affine when --bits is given")
      ->check(CLI::IsMember({"affine", "mxfp4", "mxfp8", "nvfp4"}));
  command->add_option("--dtype", options->dtype, "Type of scales, norms and weights that are not quantised")
      ->check(CLI::IsMember({"float16", "bfloat16", "float32"}));
  command->add_flag("--dequantize", options->dequantize, "Every matrix dense, in the type of --dtype")
      ->excludes("--bits")
      ->excludes("--mode");
  command->add_flag("--force", options->force, "Replace a finished model at the destination");
  command->add_flag("--json", options->json, "Print JSON");
  auto settings = std::make_shared<SettingsFlags>(*command, std::vector<std::string>{"threads", "log_level"});
  set_examples(
      *command,
      "  penstock convert smollm2 ./smollm2-mlx                      the same values, in MLX's formats\n"
      "  penstock convert org/name ./name-4bit --bits 4 --group-size 64\n"
      "  penstock convert ./model ./model-mxfp4 --mode mxfp4 --json");
  command->callback([options, settings, &program] { run(program, *options, settings->load(program)); });
}

}  // namespace penstock::cli
