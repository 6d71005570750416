//! Grammars of answers, compiled from what clients send: JSON schemas, regular expressions, choices, Lark.

use std::sync::Mutex;

use llguidance::api::{GrammarWithLexer, ParserLimits, TopLevelGrammar};
use serde_json::{json, Map, Value};

use crate::matcher::Matcher;
use crate::schema::rewritten;
use crate::vocabulary::GrammarEnv;
use crate::{Failure, Outcome};

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// A JSON schema.
    JsonSchema,
    /// Any JSON object; without source.
    JsonObject,
    Regex,
    /// A JSON array of texts, of which the answer is one.
    Choice,
    /// llguidance's variant of Lark, with JSON schemas inside as `%json {...}`.
    Lark,
}

/// Between two parts of JSON: a space or two, or one line break and an indentation. Without an upper bound a model can
/// write whitespace for ever.
const WHITESPACE: &str = r"[ \t]{1,2}|\r?\n[ \t]{0,32}";

/// A source is refused above this many bytes.
const MOST_SOURCE_BYTES: usize = 1 << 20;

/// What compiling and one mask may cost: tens of milliseconds and a few megabytes.
pub(crate) fn limits() -> ParserLimits {
    ParserLimits {
        max_items_in_row: 2000,
        initial_lexer_fuel: 1_000_000,
        step_lexer_fuel: 200_000,
        step_max_items: 50_000,
        max_lexer_states: 50_000,
        max_grammar_size: 500_000,
        precompute_large_lexemes: true,
        verbose_errors: false,
    }
}

/// Any thread.
pub struct Grammar {
    /// At its start, never advanced. Copied under the mutex: it has caches.
    fresh: Mutex<Matcher>,
}

impl Grammar {
    /// `Refused` with the words of what is wrong or not supported.
    pub fn compile(env: &GrammarEnv, kind: Kind, source: &str) -> Outcome<Grammar> {
        if source.len() > MOST_SOURCE_BYTES {
            return refused(format!("expected a grammar of at most {MOST_SOURCE_BYTES} bytes; got {}", source.len()));
        }
        let grammar = match kind {
            Kind::JsonSchema => return Grammar::of_schema(env, &parsed(source)?),
            Kind::JsonObject => return Grammar::of_schema(env, &json!({"type": "object"})),
            Kind::Regex => TopLevelGrammar::from_grammar(GrammarWithLexer::from_regex(source)),
            Kind::Choice => TopLevelGrammar::from_lark(choice(source)?),
            Kind::Lark => TopLevelGrammar::from_lark(source.to_string()),
        };
        Grammar::of(env, grammar).map_err(named(kind))
    }

    /// A oneOf is split only where its branches cannot be seen to differ: it makes grammars long.
    fn of_schema(env: &GrammarEnv, source: &Value) -> Outcome<Grammar> {
        let compile = |splits: bool| Grammar::of(env, TopLevelGrammar::from_json_schema(schema(source, splits)?));
        let compiled = match compile(false) {
            Err(failure) if failure.text().contains("oneOf") => compile(true),
            other => other,
        };
        compiled.map_err(with_keyword).map_err(named(Kind::JsonSchema))
    }

    fn of(env: &GrammarEnv, grammar: TopLevelGrammar) -> Outcome<Grammar> {
        let mut matcher = Matcher::new(env, env.factory.create_parser(grammar))?;
        // What is too complex for the first mask is better refused here than in the answer.
        matcher.copy().mask(&mut vec![0; env.vocab_size().div_ceil(32)])?;
        matcher.state()?;
        Ok(Grammar { fresh: Mutex::new(matcher) })
    }

    pub fn matcher(&self) -> Outcome<Matcher> {
        let fresh = self.fresh.lock().map_err(|e| Failure::Invalid(format!("grammar: {e}")))?;
        Ok(fresh.copy())
    }
}

/// The schema as it is compiled, for a `%json` part of a Lark grammar.
pub fn json_part(source: &str) -> Outcome<String> {
    let source = parsed(source)?;
    Ok(schema(&source, false).map_err(named(Kind::JsonSchema))?.to_string())
}

fn refused<T>(text: String) -> Outcome<T> {
    Err(Failure::Refused(text))
}

/// The library's words, in one line and of bounded length.
fn named(kind: Kind) -> impl Fn(Failure) -> Failure {
    move |failure| {
        let what = match kind {
            Kind::JsonSchema | Kind::JsonObject => "JSON schema",
            Kind::Regex => "regular expression",
            Kind::Choice => "choice",
            Kind::Lark => "Lark grammar",
        };
        let words: Vec<&str> = failure.text().split_whitespace().collect();
        let mut text = words.join(" ").replace(" <non-verbose/>", "");
        if let Some((at, _)) = text.char_indices().nth(600) {
            text.truncate(at);
            text.push_str("...");
        }
        Failure::Refused(format!("expected a {what} that can be followed; got: {text}"))
    }
}

/// Where the library's words do not name the keyword that they are about.
fn with_keyword(failure: Failure) -> Failure {
    let keyword = match failure.text() {
        text if text.starts_with("regex parse error") => "pattern",
        text if text.starts_with("circular references") => "$ref",
        text if text.starts_with("patternProperty ") => "patternProperties",
        _ => return failure,
    };
    Failure::Refused(format!("{keyword}: {}", failure.text()))
}

fn parsed(source: &str) -> Outcome<Value> {
    match serde_json::from_str(source) {
        Ok(value @ (Value::Object(_) | Value::Bool(_))) => Ok(value),
        Ok(other) => refused(format!("expected a JSON schema, an object; got {other}")),
        Err(error) => refused(format!("expected a JSON schema; got no JSON: {error}")),
    }
}

/// In llguidance's keywords, with its options: what the client's own `x-guidance` says of whitespace stands.
fn schema(source: &Value, splits_one_of: bool) -> Outcome<Value> {
    let mut options = match source.get("x-guidance") {
        None => Map::new(),
        Some(Value::Object(options)) => options.clone(),
        Some(other) => return refused(format!("x-guidance: expected an object; got {other}")),
    };
    if !options.contains_key("whitespace_pattern") && options.get("whitespace_flexible") != Some(&Value::Bool(false)) {
        options.insert("whitespace_pattern".to_string(), json!(WHITESPACE));
    }
    let mut schema = rewritten(source, splits_one_of)?;
    schema["x-guidance"] = Value::Object(options);
    Ok(schema)
}

fn choice(source: &str) -> Outcome<String> {
    let texts: Vec<String> = match serde_json::from_str(source) {
        Ok(texts) => texts,
        Err(error) => return refused(format!("expected a list of texts to choose from; {error}")),
    };
    if texts.is_empty() || texts.iter().any(String::is_empty) {
        return refused("expected a list of texts to choose from, none of them empty; got another".to_string());
    }
    let texts: Vec<String> = texts.into_iter().map(|text| Value::String(text).to_string()).collect();
    Ok(format!("start: CHOICE\nCHOICE: {}\n", texts.join(" | ")))
}
