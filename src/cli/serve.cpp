// penstock serve: the HTTP server.
#include <atomic>
#include <filesystem>
#include <fstream>
#include <future>
#include <iostream>
#include <map>
#include <memory>
#include <sstream>

#include <fmt/format.h>
#ifdef __GLIBC__
#include <malloc.h>
#endif

#include "api/server.h"
#include "api/shutdown.h"
#include "base/error.h"
#include "base/log.h"
#include "cli/models.h"
#include "cli/served_models.h"
#include "cli/settings_flags.h"
#include "db/database.h"
#include "jobs/batches.h"
#include "jobs/file_store.h"
#include "library/library.h"
#include "serve/response_store.h"
#include "serve/script.h"
#include "serve/scripted_generator.h"
#include "serve/service.h"

namespace penstock::cli {
namespace {

constexpr std::string_view kScripted = "scripted:";

pool::ModelSource scripted_source(const std::string& engine) {
  if (!engine.starts_with(kScripted)) {
    throw base::Error(base::Code::kInvalidRequest,
                      "[cli.serve] expected --engine scripted:FILE; got " + engine);
  }
  const std::string path = engine.substr(kScripted.size());
  std::ifstream in(path, std::ios::binary);
  if (!in)
    throw base::Error(base::Code::kNotFound,
                      "[cli.serve] expected a script at " + path + "; got no such file");
  std::stringstream text;
  text << in.rdbuf();
  pool::ModelSource source;
  const serve::Script script = serve::parse_script(text.str());
  source.id = script.model;
  source.names = script.names;
  source.load = [script] { return serve::make_scripted_model(script); };
  return source;
}

/// What is served, and where the files of each model are.
struct Served {
  std::shared_ptr<pool::ModelPool> models;
  std::map<std::string, store::Located> located;
};

/// The first model that is named is loaded before the server listens, so that what is wrong with it is said
/// here.
Served make_pool(const Program& program, const config::Settings& settings,
                 const std::vector<std::string>& names, const std::string& engine,
                 const ServedTogether& together) {
  Served served;
  std::vector<pool::ModelSource> sources;
  if (!engine.empty()) {
    sources.push_back(scripted_source(engine));
  } else {
    for (ServedModel& model : served_models(program, settings, names, together)) {
      served.located[model.source.id] = std::move(model.located);
      sources.push_back(std::move(model.source));
    }
  }
  served.models =
      std::make_shared<pool::ModelPool>(std::move(sources), pool_options(settings, together.memory));
  if (names.empty() && engine.empty() && !settings.model_dir.empty()) return served;
  std::promise<void> loaded;
  served.models->load(served.models->id_of(""), std::nullopt, [&loaded](const std::exception_ptr& error) {
    error == nullptr ? loaded.set_value() : loaded.set_exception(error);
  });
  loaded.get_future().get();
  return served;
}

/// The library offers the models that requests made before, and takes what they make.
library::LibraryOptions library_options(const Program& program, const config::Settings& settings,
                                        Served served, bool is_scripted, const ServedTogether& together,
                                        const serve::Service& service) {
  library::LibraryOptions options;
  options.folder = std::filesystem::path(settings.state_dir) / "library";
  options.may_change = api::may_change_models(settings);
  options.max_upload_bytes = static_cast<uint64_t>(settings.max_upload_bytes);
  options.located = std::move(served.located);
  options.is_tag_taken = [&service](std::string_view tag) { return service.profiles().contains(tag); };
  if (is_scripted) return options;
  options.registry = std::make_shared<store::Registry>(make_registry(program));
  options.make_source = [settings, together](const store::Located& located, const std::string& name) {
    return added_source(settings, together, located, name);
  };
  return options;
}

std::unique_ptr<serve::Service> make_service(const config::Settings& settings,
                                             const std::shared_ptr<pool::ModelPool>& models,
                                             const ServedTogether& together) {
  serve::ServiceOptions options;
  options.disk = together.disk;
  options.request_timeout_ms = settings.request_timeout_ms;
  options.hosted_model_names = settings.hosted_model_names;
  options.memory = together.memory;
  if (!settings.profiles.empty()) options.profiles = pool::read_profiles(settings.profiles);
  return std::make_unique<serve::Service>(models, std::move(options));
}

/// glibc raises these thresholds with the sizes that it sees freed, and then keeps what a passing peak took.
void return_freed_memory() {
#ifdef __GLIBC__
  constexpr int kThresholdBytes = 128 * 1024;
  ::mallopt(M_MMAP_THRESHOLD, kThresholdBytes);
  ::mallopt(M_TRIM_THRESHOLD, kThresholdBytes);
#endif
}

int run(const Program& program, const config::Settings& settings, const std::vector<std::string>& names,
        const std::string& engine) {
  return_freed_memory();
  // Before any thread starts: threads inherit the blocked signals.
  const api::ShutdownSignals signals;
  api::check_settings(settings);   // before minutes of download and loading
  std::atomic<bool> lost = false;  // outlives the models, whose engines set it
  const ServedTogether together{[&lost] {
                                  lost = true;
                                  api::ShutdownSignals::stop();
                                },
                                memory_guard(settings), open_disk_cache(settings)};
  Served served = make_pool(program, settings, names, engine, together);
  const auto service = make_service(settings, served.models, together);
  const auto models = served.models;
  library::Library library(
      models, library_options(program, settings, std::move(served), !engine.empty(), together, *service));
  const auto file = std::filesystem::path(settings.state_dir) / "penstock.db";
  db::Database database(
      file, {serve::ResponseStore::schema(), jobs::FileStore::schema(file), jobs::Batches::schema()});
  serve::ResponseStore responses(database);
  jobs::FileStore files(database);
  jobs::Batches batches(database, files);
  api::ApiServer server(settings, *service, {responses, files, batches, library});
  server.start();
  std::cout << "listening on " << server.url() << std::endl;
  if (settings.unix_socket.empty() && (settings.host == "0.0.0.0" || settings.host == "::"))
    std::fprintf(stderr, "other machines reach it at this machine's own addresses, with the API key\n");
  signals.wait();
  std::fprintf(stderr, "stopping%s: running requests may finish for %lld ms\n",
               lost ? ", the device is lost" : "", static_cast<long long>(settings.drain_timeout_ms));
  server.drain_and_stop(static_cast<int>(settings.drain_timeout_ms));
  return lost ? kFailed : kDone;
}

}  // namespace

void add_serve(CLI::App& app, Program& program) {
  auto models = std::make_shared<std::vector<std::string>>();
  auto engine = std::make_shared<std::string>();
  CLI::App* command = app.add_subcommand("serve", "Serve models over HTTP (OpenAI and Ollama API)");
  CLI::Option* name = command->add_option(
      "model", *models,
      "Aliases, org/name, folders or .gguf files: the first is loaded now, others when a request names them; "
      "without any, and without --model-dir, one is chosen for this machine");
  command->add_option("--engine", *engine, "scripted:FILE plays a script instead of a model, for tests")
      ->excludes(name);
  auto settings = std::make_shared<SettingsFlags>(*command, std::vector<std::string>{"process", "model"});
  set_examples(*command,
               "  penstock serve smollm2\n"
               "  penstock serve smollm2 qwen2.5-coder --model-idle-ttl-ms 600000\n"
               "  penstock serve ./my-model --port 8080 --max-num-seqs 32\n"
               "  PENSTOCK_API_KEY=secret penstock serve smollm2 --host 0.0.0.0\n"
               "  curl http://127.0.0.1:11434/v1/chat/completions -H 'Content-Type: application/json' -d "
               "'{\"messages\": [{\"role\": \"user\", "
               "\"content\": \"Hi\"}]}'");
  command->callback([models, engine, settings, &program] {
    program.exit = run(program, settings->load(program), *models, *engine);
  });
}

}  // namespace penstock::cli
