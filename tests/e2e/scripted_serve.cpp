// serve --engine scripted:FILE [--setting value ...]: the server over a script, with the settings of the
// program.
#include <cstdio>
#include <fstream>
#include <iterator>
#include <map>
#include <string>
#include <string_view>

#include "api/server.h"
#include "api/shutdown.h"
#include "base/error.h"
#include "config/settings.h"
#include "serve/scripted_generator.h"

namespace {

int run(int argc, char** argv) {
  using namespace penstock;
  const api::ShutdownSignals signals;
  std::string script_path;
  config::Sources sources;
  for (int i = 2; i + 1 < argc; i += 2) {
    const std::string_view flag = argv[i];
    if (flag == "--engine")
      script_path = std::string(argv[i + 1]).substr(std::string_view("scripted:").size());
    for (const config::Option& option : config::options()) {
      if (option.flag == flag) sources.flags[std::string(option.name)] = argv[i + 1];
    }
  }
  const config::Settings settings = config::load(sources).settings;
  std::ifstream file(script_path);
  const std::string text{std::istreambuf_iterator<char>(file), {}};
  serve::Service service(serve::make_scripted_model(serve::parse_script(text)));
  api::ApiServer server(settings, service);
  server.start();
  std::printf("listening on %s\n", server.url().c_str());
  std::fflush(stdout);
  signals.wait();
  server.drain_and_stop(static_cast<int>(settings.drain_timeout_ms));
  return 0;
}

}  // namespace

int main(int argc, char** argv) {
  try {
    return run(argc, argv);
  } catch (const penstock::base::Error& error) {
    std::fprintf(stderr, "%s\n", error.what());
    return 1;
  }
}
