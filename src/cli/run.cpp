// penstock run: a chat in the terminal, or one answer when a prompt is given.
#include <condition_variable>
#include <iostream>
#include <memory>
#include <mutex>

#include <poll.h>
#include <unistd.h>

#include "base/error.h"
#include "cli/models.h"
#include "cli/settings_flags.h"
#include "serve/service.h"

namespace penstock::cli {
namespace {

struct RunOptions {
  std::string model, system;
  std::vector<std::string> prompt;
  int64_t max_tokens = 0;
  chat::Sampling sampling;
};

/// Prints text as it comes; the command's thread waits for the end.
class Printer : public chat::EventSink {
 public:
  void on_event(chat::Event event) override {
    const std::lock_guard lock(mutex_);
    if (const auto* delta = std::get_if<chat::TextDelta>(&event)) {
      answer_ += delta->text;
      std::cout << delta->text << std::flush;
    } else if (const auto* reasoning = std::get_if<chat::ReasoningDelta>(&event)) {
      std::cout << reasoning->text << std::flush;
    } else if (const auto* failure = std::get_if<chat::Failure>(&event)) {
      error_ = failure->error;
      ended_ = true;
    } else if (std::holds_alternative<chat::Done>(event)) {
      ended_ = true;
    }
    changed_.notify_one();
  }

  /// True at the end, false after a short while.
  bool wait() {
    std::unique_lock lock(mutex_);
    return changed_.wait_for(lock, std::chrono::milliseconds(50), [&] { return ended_; });
  }

  std::string answer() const {
    const std::lock_guard lock(mutex_);
    return answer_;
  }

  std::optional<base::Error> error() const {
    const std::lock_guard lock(mutex_);
    return error_;
  }

 private:
  mutable std::mutex mutex_;
  std::condition_variable changed_;
  std::string answer_;
  std::optional<base::Error> error_;
  bool ended_ = false;
};

constexpr const char* kHelp =
    "/help   this text\n"
    "/clear  forget the conversation\n"
    "/bye    leave (also Ctrl-D)\n"
    "Ctrl-C  stop the answer\n"
    "\"\"\"     starts and ends a message of several lines\n";

// Where neither the user nor the model nor its alias says: the whole distribution of a small model
// at temperature 1 rambles.
constexpr float kChatTemperature = 0.7f, kChatTopP = 0.9f;

class Chat {
 public:
  Chat(serve::Service& service, const RunOptions& options, const pool::GenerationDefaults& defaults)
      : service_(service), options_(options), defaults_(defaults) {
    has_template_ = service.model("").has_template;
    clear();
  }

  void clear() {
    messages_.clear();
    if (!options_.system.empty()) messages_.push_back(message("system", options_.system));
  }

  bool has_template() const { return has_template_; }

  /// Prints the answer. False when it was interrupted.
  bool answer(const std::string& text) {
    chat::Request request;
    if (options_.max_tokens > 0) request.max_tokens = options_.max_tokens;
    request.sampling = options_.sampling;
    if (!request.sampling.temperature && !defaults_.temperature) {
      request.sampling.temperature = kChatTemperature;
      if (!request.sampling.top_p && !defaults_.top_p) request.sampling.top_p = kChatTopP;
    }
    if (has_template_) {
      messages_.push_back(message("user", text));
      chat::Conversation conversation;
      conversation.messages = messages_;
      request.input = std::move(conversation);
    } else {
      request.input = chat::Completion{{text}};
      if (!request.max_tokens) request.max_tokens = 128;
    }
    const auto printer = std::make_shared<Printer>();
    interrupted() = false;
    const auto generation = service_.submit(std::move(request), printer);
    while (!printer->wait() && !interrupted()) {
    }
    const bool stopped = interrupted().exchange(false);
    if (stopped) generation->cancel(serve::Generation::Why::kCaller);
    const auto error = printer->error();
    const std::string answer = printer->answer();
    if (answer.empty() ? !error : answer.back() != '\n') std::cout << "\n";
    std::cout << std::flush;
    if (error) {
      if (has_template_) messages_.pop_back();
      throw *error;
    }
    if (has_template_) messages_.push_back(message("assistant", printer->answer()));
    return !stopped;
  }

 private:
  static chat::Message message(const std::string& role, const std::string& text) {
    chat::Message message;
    message.role = role;
    message.content = std::vector<chat::Part>{{text}};
    return message;
  }

  serve::Service& service_;
  const RunOptions& options_;
  const pool::GenerationDefaults& defaults_;
  std::vector<chat::Message> messages_;
  bool has_template_ = true;
};

/// A line from the terminal has come (or its end); false after Ctrl-C. A blocked read would not notice that.
bool wait_for_line() {
  pollfd input = {STDIN_FILENO, POLLIN, 0};
  while (poll(&input, 1, 100) <= 0) {
    if (interrupted()) return false;
  }
  return true;
}

/// One message, which may span lines between triple quotes. Nothing at the end of input.
std::optional<std::string> read_message(bool terminal) {
  if (terminal) std::cout << ">>> " << std::flush;
  std::string line;
  if (terminal && !wait_for_line()) return std::nullopt;
  if (!std::getline(std::cin, line)) return std::nullopt;
  const std::string quotes = "\"\"\"";
  if (!line.starts_with(quotes)) return line;
  std::string text = line.substr(quotes.size());
  while (!text.ends_with(quotes)) {
    if (terminal) std::cout << "... " << std::flush;
    if (terminal && !wait_for_line()) return std::nullopt;
    if (!std::getline(std::cin, line)) return text;
    text += "\n" + line;
  }
  return text.substr(0, text.size() - quotes.size());
}

void converse(Chat& chat) {
  const bool terminal = isatty(STDIN_FILENO) != 0;
  if (terminal) std::cout << "/help for help, /bye or Ctrl-D to leave, Ctrl-C to stop an answer\n";
  while (true) {
    const auto text = read_message(terminal);
    if (!text && interrupted().exchange(false)) {  // Ctrl-C at the prompt: a fresh line
      std::cin.clear();
      clearerr(stdin);
      std::cout << "\n";
      continue;
    }
    if (!text || *text == "/bye") break;
    if (text->find_first_not_of(" \t") == std::string::npos) continue;
    if (*text == "/help") {
      std::cout << kHelp;
    } else if (*text == "/clear") {
      chat.clear();
      std::cout << "forgotten\n";
    } else if (text->starts_with("/") && text->find(' ') == std::string::npos && text->size() < 20) {
      std::cout << "unknown command " << *text << "; /help lists them\n";
    } else {
      try {
        chat.answer(*text);
      } catch (const base::Error& error) {
        std::cerr << "penstock: " << error.text() << "\n";
      }
    }
  }
  if (terminal) std::cout << "\n";
}

std::string joined(const std::vector<std::string>& words) {
  std::string text;
  for (const auto& word : words) text += (text.empty() ? "" : " ") + word;
  return text;
}

int run(const Program& program, const RunOptions& options, config::Settings settings) {
  const store::Located located = locate_or_pull(program, options.model);
  settings.max_num_seqs = 1;
  const auto model = pool::load_model(located.path, load_options_with_draft(program, settings, located));
  serve::Service service(model);
  Chat chat(service, options, model->defaults);
  if (!chat.has_template()) {
    std::cerr << model->id << " is a base model without a chat template: it continues your text\n";
  }
  catch_interrupts();
  int exit = kDone;
  if (!options.prompt.empty()) {
    exit = chat.answer(joined(options.prompt)) ? kDone : kInterrupted;
  } else {
    converse(chat);
  }
  service.stop();
  model->generator->stop();
  return exit;
}

}  // namespace

void add_run(CLI::App& app, Program& program) {
  auto options = std::make_shared<RunOptions>();
  CLI::App* command = app.add_subcommand("run", "Chat with a model in the terminal");
  command->add_option("model", options->model,
                      "Alias, org/name, folder or .gguf file; without it one is chosen for this machine");
  command->add_option("prompt", options->prompt, "Answer this once and exit");
  command->add_option("--system", options->system, "System message");
  command
      ->add_option("--max-tokens", options->max_tokens,
                   "Most tokens of an answer; default: the room that is left")
      ->check(CLI::Range(1, INT32_MAX));
  add_sampling_flags(*command, options->sampling, "the model's, else 0.7 with top-p 0.9");
  auto settings = std::make_shared<SettingsFlags>(
      *command, std::vector<std::string>{"executor", "cpu_instructions", "exact", "kv_format", "threads",
                                         "context_length", "kv_memory_bytes", "memory_guard", "memory_limit",
                                         "log_level"});
  set_examples(*command,
               "  penstock run\n"
               "  penstock run smollm2\n"
               "  penstock run smollm2 \"Why is the sky blue?\"\n"
               "  penstock run qwen2.5-coder-1.5b --system \"Answer with code only\"");
  command->callback(
      [options, settings, &program] { program.exit = run(program, *options, settings->load(program)); });
}

}  // namespace penstock::cli
