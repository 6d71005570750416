// penstock serve: the HTTP server.
#include <atomic>
#include <fstream>
#include <iostream>
#include <memory>
#include <sstream>

#include <fmt/format.h>

#include "api/server.h"
#include "api/shutdown.h"
#include "base/error.h"
#include "base/log.h"
#include "cli/models.h"
#include "cli/settings_flags.h"
#include "serve/script.h"
#include "serve/scripted_generator.h"
#include "serve/service.h"

namespace penstock::cli {
namespace {

constexpr std::string_view kScripted = "scripted:";

std::shared_ptr<const pool::Model> scripted_model(const std::string& engine) {
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
  return serve::make_scripted_model(serve::parse_script(text.str()));
}

std::shared_ptr<const pool::Model> load(const Program& program, const config::Settings& settings,
                                        const std::string& name, std::atomic<bool>& lost) {
  const store::Located located = locate_or_pull(program, name);
  std::fprintf(stderr, "loading %s\n", located.path.c_str());
  pool::LoadOptions options = load_options(settings, located);
  options.on_lost = [&lost] {
    lost = true;
    api::ShutdownSignals::stop();
  };
  const auto model = pool::load_model(located.path, options);
  std::fprintf(stderr, "%s: %s, %s, executor %s (%s), context %d tokens\n", model->id.c_str(),
               model->family.c_str(), model->format.c_str(), model->executor.c_str(),
               model->executor_detail.c_str(), model->context_length);
  return model;
}

int run(const Program& program, const config::Settings& settings, const std::string& name,
        const std::string& engine) {
  // Before any thread starts: threads inherit the blocked signals.
  const api::ShutdownSignals signals;
  api::check_settings(settings);   // before minutes of download and loading
  std::atomic<bool> lost = false;  // outlives the model, whose engine sets it
  const auto model = engine.empty() ? load(program, settings, name, lost) : scripted_model(engine);
  serve::ServiceOptions options;
  options.request_timeout_ms = settings.request_timeout_ms;
  serve::Service service(model, options);
  api::ApiServer server(settings, service);
  server.start();
  std::cout << "listening on " << server.url() << std::endl;
  if (settings.unix_socket.empty() && (settings.host == "0.0.0.0" || settings.host == "::"))
    std::fprintf(stderr, "other machines reach it at this machine's own addresses, with the API key\n");
  signals.wait();
  std::fprintf(stderr, "stopping%s: running requests may finish for %lld ms\n",
               lost ? ", the device is lost" : "", static_cast<long long>(settings.drain_timeout_ms));
  server.drain_and_stop(static_cast<int>(settings.drain_timeout_ms));
  model->generator->stop();
  return lost ? kFailed : kDone;
}

}  // namespace

void add_serve(CLI::App& app, Program& program) {
  auto model = std::make_shared<std::string>();
  auto engine = std::make_shared<std::string>();
  CLI::App* command = app.add_subcommand("serve", "Serve a model over HTTP (OpenAI API)");
  CLI::Option* name = command->add_option(
      "model", *model, "Alias, org/name, folder or .gguf file; without it one is chosen for this machine");
  command->add_option("--engine", *engine, "scripted:FILE plays a script instead of a model, for tests")
      ->excludes(name);
  auto settings = std::make_shared<SettingsFlags>(*command, std::vector<std::string>{"process", "model"});
  set_examples(*command,
               "  penstock serve smollm2\n"
               "  penstock serve ./my-model --port 8080 --max-num-seqs 32\n"
               "  PENSTOCK_API_KEY=secret penstock serve smollm2 --host 0.0.0.0\n"
               "  curl http://127.0.0.1:11434/v1/chat/completions -H 'Content-Type: application/json' -d "
               "'{\"messages\": [{\"role\": \"user\", "
               "\"content\": \"Hi\"}]}'");
  command->callback([model, engine, settings, &program] {
    program.exit = run(program, settings->load(program), *model, *engine);
  });
}

}  // namespace penstock::cli
