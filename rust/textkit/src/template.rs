//! Chat templates, rendered as transformers renders them with Jinja2.

use std::cell::Cell;
use std::fmt;

use minijinja::syntax::SyntaxConfig;
use minijinja::value::{Kwargs, Value, ValueKind};
use minijinja::{escape_formatter, AutoEscape, Environment, Error, ErrorKind, State};
use minijinja_contrib::pycompat;
use serde_json::{Map, Value as Json};

use crate::python::{self, JsonStyle, MAX_INDENT};
use crate::{invalid, Failure, Outcome};

/// Work that one rendering may do, in engine instructions: far beyond any conversation, an end for a hostile template.
const FUEL: u64 = 20_000_000;
const NAME: &str = "chat";

thread_local! {
    /// What `strftime_now` sees while this thread renders.
    static NOW: Cell<i64> = const { Cell::new(0) };
}

/// Immutable once compiled; `render` may be called from any thread.
pub struct Template {
    environment: Environment<'static>,
}

/// The words of `raise_exception`.
#[derive(Debug)]
struct Raised(String);

impl fmt::Display for Raised {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for Raised {}

impl Template {
    pub fn compile(source: &str) -> Outcome<Template> {
        let mut environment = Environment::new();
        let syntax = SyntaxConfig::builder().trim_blocks(true).lstrip_blocks(true).build();
        environment.set_syntax(syntax.map_err(|error| invalid("template syntax", error))?);
        environment.set_auto_escape_callback(|_| AutoEscape::None);
        environment.set_fuel(Some(FUEL));
        environment.set_unknown_method_callback(method);
        environment.set_formatter(|out, state, value| match value.kind() {
            ValueKind::Map | ValueKind::Seq | ValueKind::Number => {
                escape_formatter(out, state, &Value::from(python::str_of(value)))
            }
            _ => escape_formatter(out, state, value),
        });
        add_functions(&mut environment);
        add_tests(&mut environment);
        environment
            .add_template_owned(NAME, plain_generation_blocks(source))
            .map_err(|error| invalid("chat template", describe(&error)))?;
        Ok(Template { environment })
    }

    /// `context` is a JSON object of the variables. `local_time_s` is what `strftime_now` sees.
    pub fn render(&self, context: &[u8], local_time_s: i64) -> Outcome<String> {
        let mut context: Json = serde_json::from_slice(context).map_err(|e| invalid("template variables", e))?;
        let Some(variables) = context.as_object_mut() else {
            return Err(Failure::Invalid("template variables: not an object".to_string()));
        };
        if let Some(Json::Array(messages)) = variables.get_mut("messages") {
            messages.iter_mut().for_each(normalise_message);
        }
        for absent in ["tools", "documents"] {
            variables.entry(absent).or_insert(Json::Null);
        }
        variables.entry("add_generation_prompt").or_insert(Json::Bool(false));
        NOW.set(local_time_s);
        let template = self.environment.get_template(NAME).map_err(|e| invalid("chat template", describe(&e)))?;
        template.render(value_of(&context)).map_err(|error| Failure::Refused(words_of(&error)))
    }
}

/// Keys without a value go, and the three names of a message's reasoning stand for each other.
fn normalise_message(message: &mut Json) {
    let Some(fields) = message.as_object_mut() else {
        return;
    };
    fields.retain(|_, value| !value.is_null());
    let reasoning = ["reasoning_content", "thinking", "reasoning"].iter().find_map(|name| fields.get(*name).cloned());
    if let Some(reasoning) = reasoning {
        let mut all = Map::new();
        all.insert("thinking".to_string(), reasoning.clone());
        all.extend(std::mem::take(fields));
        all.insert("reasoning_content".to_string(), reasoning);
        *fields = all;
    }
}

fn value_of(json: &Json) -> Value {
    match json {
        Json::Null => Value::from(()),
        Json::Bool(value) => Value::from(*value),
        Json::String(value) => Value::from(value.as_str()),
        Json::Array(items) => items.iter().map(value_of).collect(),
        Json::Object(fields) => {
            Value::from_pairs(fields.iter().map(|(key, value)| (Value::from(key.as_str()), value_of(value))))
        }
        Json::Number(number) => match (number.as_i64(), number.as_u64(), number.as_f64()) {
            (Some(value), _, _) => Value::from(value),
            (_, Some(value), _) => Value::from(value),
            (_, _, Some(value)) => python::float_value(value),
            _ => Value::from(()),
        },
    }
}

/// The template's own words if it raised them, else what went wrong and where.
fn words_of(error: &Error) -> String {
    let mut cause: Option<&(dyn std::error::Error + 'static)> = Some(error);
    while let Some(current) = cause {
        if let Some(raised) = current.downcast_ref::<Raised>() {
            return raised.0.clone();
        }
        cause = current.source();
    }
    describe(error)
}

fn describe(error: &Error) -> String {
    let what = error.detail().map_or_else(|| error.kind().to_string(), str::to_string);
    match error.line() {
        Some(line) => format!("{what} (line {line} of the chat template)"),
        None => what,
    }
}

/// `{% generation %}` marks the assistant's text for training; here it is a plain block.
fn plain_generation_blocks(source: &str) -> String {
    let mut out = String::with_capacity(source.len());
    let mut rest = source;
    while let Some(start) = rest.find("{%") {
        let Some(end) = rest[start..].find("%}").map(|at| start + at) else {
            break;
        };
        let inside = &rest[start + 2..end];
        let name = inside.trim_matches(|c: char| c.is_whitespace() || c == '-' || c == '+');
        out.push_str(&rest[..start + 2]);
        match name {
            "generation" => out.push_str(&inside.replace("generation", "if true")),
            "endgeneration" => out.push_str(&inside.replace("endgeneration", "endif")),
            _ => out.push_str(inside),
        }
        rest = &rest[end..];
    }
    out.push_str(rest);
    out
}

fn add_functions(environment: &mut Environment<'static>) {
    environment.add_function("raise_exception", |words: &Value| -> Result<Value, Error> {
        let words = python::str_of(words);
        Err(Error::new(ErrorKind::InvalidOperation, words.clone()).with_source(Raised(words)))
    });
    environment.add_function("strftime_now", |format: &str| python::strftime(format, NOW.get()));
    environment.add_filter("tojson", to_json);
    environment.add_filter("indent", indent);
    environment.add_filter("string", |value: &Value| match value.kind() {
        ValueKind::String => value.clone(),
        _ => Value::from(python::str_of(value)),
    });
}

fn add_tests(environment: &mut Environment<'static>) {
    let is_float = |value: &Value| python::as_float(value).is_some();
    environment.add_test("float", is_float);
    environment.add_test("number", move |value: &Value| {
        matches!(value.kind(), ValueKind::Number | ValueKind::Bool) || is_float(value)
    });
    environment.add_test("iterable", |value: &Value| {
        value.is_undefined()
            || matches!(value.kind(), ValueKind::String | ValueKind::Seq | ValueKind::Map | ValueKind::Iterable)
    });
    environment.add_test("sequence", |value: &Value| {
        value.is_undefined() || matches!(value.kind(), ValueKind::String | ValueKind::Seq | ValueKind::Map)
    });
}

/// `tojson(ensure_ascii=False, indent=None, separators=None, sort_keys=False)` over `json.dumps`.
fn to_json(
    value: &Value,
    ensure_ascii: Option<Value>,
    indent: Option<Value>,
    separators: Option<Value>,
    kwargs: Kwargs,
) -> Result<Value, Error> {
    let option = |given: Option<Value>, name: &str| -> Result<Option<Value>, Error> {
        match given {
            Some(value) => Ok(Some(value)),
            None => kwargs.get::<Option<Value>>(name),
        }
    };
    let ensure_ascii = option(ensure_ascii, "ensure_ascii")?.is_some_and(|value| value.is_true());
    let indent =
        option(indent, "indent")?.filter(|value| !value.is_none()).map(|value| indent_text(&value)).transpose()?;
    let separators = option(separators, "separators")?.filter(|value| !value.is_none());
    let sort_keys = option(None, "sort_keys")?.is_some_and(|value| value.is_true());
    kwargs.assert_all_used()?;
    let (item_separator, key_separator) = match separators {
        Some(pair) => (pair.get_item_by_index(0)?.to_string(), pair.get_item_by_index(1)?.to_string()),
        None => ((if indent.is_some() { "," } else { ", " }).to_string(), ": ".to_string()),
    };
    let style = JsonStyle { ensure_ascii, indent, item_separator, key_separator, sort_keys };
    style.dumps(value).map(Value::from)
}

/// An indent given as text or as a number of spaces.
fn indent_text(value: &Value) -> Result<String, Error> {
    let text = match (value.as_str(), value.as_i64()) {
        (Some(text), _) => text.to_string(),
        (_, Some(count)) if count > MAX_INDENT as i64 => return Err(too_wide()),
        (_, Some(count)) => " ".repeat(count.max(0) as usize),
        _ => return Err(Error::new(ErrorKind::InvalidOperation, "indent is a number or a text")),
    };
    match text.len() > MAX_INDENT {
        true => Err(too_wide()),
        false => Ok(text),
    }
}

fn too_wide() -> Error {
    Error::new(ErrorKind::InvalidOperation, format!("indent is at most {MAX_INDENT}"))
}

/// Jinja2's `indent(width=4, first=False, blank=False)`, which keeps a trailing newline.
fn indent(
    value: &Value,
    width: Option<&Value>,
    first: Option<bool>,
    blank: Option<bool>,
    kwargs: Kwargs,
) -> Result<String, Error> {
    let width = match width.cloned() {
        Some(width) => Some(width),
        None => kwargs.get::<Option<Value>>("width")?,
    };
    let margin = width.map_or_else(|| Ok("    ".to_string()), |width| indent_text(&width))?;
    let first = first.or(kwargs.get("first")?).unwrap_or(false);
    let blank = blank.or(kwargs.get("blank")?).unwrap_or(false);
    kwargs.assert_all_used()?;
    let text = python::str_of(value) + "\n";
    let mut out = String::new();
    for (index, line) in python::split_lines(&text, false).into_iter().enumerate() {
        if index > 0 {
            out.push('\n');
        }
        let indented = if index == 0 { first } else { blank || !line.is_empty() };
        if indented {
            out.push_str(&margin);
        }
        out.push_str(line);
    }
    Ok(out)
}

/// Methods of Python's str, list and dict: those of pycompat and the ones that it lacks.
fn method(state: &mut State, value: &Value, name: &str, args: &[Value]) -> Result<Value, Error> {
    if let Some(text) = value.as_str() {
        if let Some(result) = text_method(text, name, args)? {
            return Ok(result);
        }
    }
    pycompat::unknown_method_callback(state, value, name, args)
}

fn text_method(text: &str, name: &str, args: &[Value]) -> Result<Option<Value>, Error> {
    let text_at = |at: usize| args.get(at).and_then(|value| value.as_str());
    Ok(match (name, text_at(0)) {
        ("splitlines", _) => {
            let keep_ends = args.first().is_some_and(|value| value.is_true());
            Some(python::split_lines(text, keep_ends).into_iter().map(Value::from).collect())
        }
        ("removeprefix", Some(prefix)) => Some(Value::from(text.strip_prefix(prefix).unwrap_or(text))),
        ("removesuffix", Some(suffix)) => Some(Value::from(text.strip_suffix(suffix).unwrap_or(text))),
        ("partition", Some(mark)) => Some(three(text.split_once(mark).map(|(a, b)| (a, mark, b)), (text, "", ""))),
        ("rpartition", Some(mark)) => Some(three(text.rsplit_once(mark).map(|(a, b)| (a, mark, b)), ("", "", text))),
        ("rsplit", Some(mark)) => {
            let limit = args.get(1).and_then(|value| value.as_i64()).filter(|limit| *limit >= 0);
            let mut parts: Vec<&str> = match limit {
                Some(limit) => text.rsplitn(limit as usize + 1, mark).collect(),
                None => text.rsplit(mark).collect(),
            };
            parts.reverse();
            Some(parts.into_iter().map(Value::from).collect())
        }
        ("index", Some(part)) => match text.find(part) {
            Some(at) => Some(Value::from(text[..at].chars().count())),
            None => return Err(Error::new(ErrorKind::InvalidOperation, "substring not found")),
        },
        _ => None,
    })
}

fn three(found: Option<(&str, &str, &str)>, otherwise: (&str, &str, &str)) -> Value {
    let (a, b, c) = found.unwrap_or(otherwise);
    [a, b, c].into_iter().map(Value::from).collect()
}
