//! Values as Python prints them: JSON as its json module writes it, repr, lines, dates.

use std::fmt::Write;
use std::sync::Arc;

use minijinja::value::{Object, ObjectRepr, Value, ValueKind};
use minijinja::{Error, ErrorKind};

/// Deeper indents are refused: a template could ask for gigabytes.
pub const MAX_INDENT: usize = 256;

/// Longer JSON is refused: deep nesting multiplies the indent.
const MAX_JSON_BYTES: usize = 64 << 20;

/// A float that Python and the template engine print differently (`1e-05`). It prints right and still is a number.
#[derive(Debug)]
pub struct Float(pub f64);

impl Object for Float {
    fn repr(self: &Arc<Self>) -> ObjectRepr {
        ObjectRepr::Plain
    }

    fn is_true(self: &Arc<Self>) -> bool {
        self.0 != 0.0
    }

    fn render(self: &Arc<Self>, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&float_repr(self.0))
    }
}

/// `repr` of a float: the shortest digits that read back, with an exponent outside 1e-4..1e16.
pub fn float_repr(x: f64) -> String {
    if x.is_nan() {
        return "nan".to_string();
    }
    if x.is_infinite() {
        return if x > 0.0 { "inf" } else { "-inf" }.to_string();
    }
    let scientific = format!("{x:e}");
    let (digits, exponent) = scientific.split_once('e').unwrap_or((&scientific, "0"));
    let exponent: i32 = exponent.parse().unwrap_or(0);
    if x != 0.0 && !(-4..16).contains(&exponent) {
        let sign = if exponent < 0 { '-' } else { '+' };
        return format!("{digits}e{sign}{:02}", exponent.abs());
    }
    let plain = x.to_string();
    if plain.contains('.') {
        plain
    } else {
        format!("{plain}.0")
    }
}

/// The number inside a value, if it is a float.
pub fn as_float(value: &Value) -> Option<f64> {
    if let Some(float) = value.downcast_object_ref::<Float>() {
        return Some(float.0);
    }
    match value.kind() {
        ValueKind::Number if !value.is_integer() => f64::try_from(value.clone()).ok(),
        _ => None,
    }
}

/// A float as a template value.
pub fn float_value(x: f64) -> Value {
    let printed = Value::from(x);
    match printed.to_string() == float_repr(x) {
        true => printed,
        false => Value::from_object(Float(x)),
    }
}

/// Options of `json.dumps`.
pub struct JsonStyle {
    pub ensure_ascii: bool,
    pub indent: Option<String>,
    pub item_separator: String,
    pub key_separator: String,
    pub sort_keys: bool,
}

impl JsonStyle {
    pub fn dumps(&self, value: &Value) -> Result<String, Error> {
        let mut out = String::new();
        self.write(value, 0, &mut out)?;
        Ok(out)
    }

    fn write(&self, value: &Value, depth: usize, out: &mut String) -> Result<(), Error> {
        if out.len() > MAX_JSON_BYTES {
            let words = format!("JSON is at most {MAX_JSON_BYTES} bytes");
            return Err(Error::new(ErrorKind::InvalidOperation, words));
        }
        if let Some(x) = as_float(value) {
            let text = if x.is_nan() {
                "NaN".to_string()
            } else if x.is_infinite() {
                if x > 0.0 { "Infinity" } else { "-Infinity" }.to_string()
            } else {
                float_repr(x)
            };
            out.push_str(&text);
            return Ok(());
        }
        match value.kind() {
            ValueKind::None => out.push_str("null"),
            ValueKind::Bool => out.push_str(if value.is_true() { "true" } else { "false" }),
            ValueKind::Number => out.push_str(&value.to_string()),
            ValueKind::String => self.write_text(value.as_str().unwrap_or(""), out),
            ValueKind::Map => self.write_map(value, depth, out)?,
            ValueKind::Seq | ValueKind::Iterable => self.write_list(value, depth, out)?,
            ValueKind::Undefined => return Err(not_json("Undefined")),
            other => return Err(not_json(&other.to_string())),
        }
        Ok(())
    }

    fn write_list(&self, value: &Value, depth: usize, out: &mut String) -> Result<(), Error> {
        let items: Vec<Value> = value.try_iter()?.collect();
        out.push('[');
        for (index, item) in items.iter().enumerate() {
            self.start_item(index, depth, out);
            self.write(item, depth + 1, out)?;
        }
        self.end_items(items.len(), depth, out);
        out.push(']');
        Ok(())
    }

    fn write_map(&self, value: &Value, depth: usize, out: &mut String) -> Result<(), Error> {
        let mut keys: Vec<Value> = value.try_iter()?.collect();
        if self.sort_keys {
            keys.sort();
        }
        out.push('{');
        for (index, key) in keys.iter().enumerate() {
            self.start_item(index, depth, out);
            let name = match (as_float(key), key.kind()) {
                (Some(x), _) => float_repr(x),
                (_, ValueKind::None) => "null".to_string(),
                (_, ValueKind::Bool) => (if key.is_true() { "true" } else { "false" }).to_string(),
                _ => key.to_string(),
            };
            self.write_text(&name, out);
            out.push_str(&self.key_separator);
            self.write(&value.get_item(key)?, depth + 1, out)?;
        }
        self.end_items(keys.len(), depth, out);
        out.push('}');
        Ok(())
    }

    fn start_item(&self, index: usize, depth: usize, out: &mut String) {
        if index > 0 {
            out.push_str(&self.item_separator);
        }
        self.new_line(depth + 1, out);
    }

    fn end_items(&self, count: usize, depth: usize, out: &mut String) {
        if count > 0 {
            self.new_line(depth, out);
        }
    }

    fn new_line(&self, depth: usize, out: &mut String) {
        if let Some(indent) = &self.indent {
            out.push('\n');
            out.push_str(&indent.repeat(depth));
        }
    }

    fn write_text(&self, text: &str, out: &mut String) {
        out.push('"');
        for c in text.chars() {
            match c {
                '"' => out.push_str("\\\""),
                '\\' => out.push_str("\\\\"),
                '\n' => out.push_str("\\n"),
                '\r' => out.push_str("\\r"),
                '\t' => out.push_str("\\t"),
                '\u{8}' => out.push_str("\\b"),
                '\u{c}' => out.push_str("\\f"),
                c if (c as u32) < 0x20 || (self.ensure_ascii && !c.is_ascii()) => {
                    for unit in c.encode_utf16(&mut [0; 2]) {
                        write!(out, "\\u{unit:04x}").ok();
                    }
                }
                c => out.push(c),
            }
        }
        out.push('"');
    }
}

fn not_json(kind: &str) -> Error {
    Error::new(ErrorKind::InvalidOperation, format!("Object of type {kind} is not JSON serializable"))
}

/// What `str(value)` gives.
pub fn str_of(value: &Value) -> String {
    match value.kind() {
        ValueKind::Map | ValueKind::Seq | ValueKind::Number | ValueKind::Plain => repr(value),
        _ => value.to_string(),
    }
}

/// What `repr(value)` gives, for values that JSON can hold.
pub fn repr(value: &Value) -> String {
    if let Some(x) = as_float(value) {
        return float_repr(x);
    }
    let items = |value: &Value| -> Vec<Value> { value.try_iter().map(Iterator::collect).unwrap_or_default() };
    match value.kind() {
        ValueKind::String => text_repr(value.as_str().unwrap_or("")),
        ValueKind::Seq => {
            let parts: Vec<String> = items(value).iter().map(repr).collect();
            match (value.is_tuple(), parts.len()) {
                (true, 1) => format!("({},)", parts[0]),
                (true, _) => format!("({})", parts.join(", ")),
                _ => format!("[{}]", parts.join(", ")),
            }
        }
        ValueKind::Map => {
            let part = |key: &Value| format!("{}: {}", repr(key), repr(&value.get_item(key).unwrap_or_default()));
            let parts: Vec<String> = items(value).iter().map(part).collect();
            format!("{{{}}}", parts.join(", "))
        }
        _ => value.to_string(),
    }
}

fn text_repr(text: &str) -> String {
    let quote = if text.contains('\'') && !text.contains('"') { '"' } else { '\'' };
    let mut out = String::from(quote);
    for c in text.chars() {
        match c {
            '\\' => out.push_str("\\\\"),
            '\n' => out.push_str("\\n"),
            '\r' => out.push_str("\\r"),
            '\t' => out.push_str("\\t"),
            c if c == quote => {
                out.push('\\');
                out.push(c);
            }
            c if (c as u32) < 0x20 || c as u32 == 0x7f => {
                write!(out, "\\x{:02x}", c as u32).ok();
            }
            c => out.push(c),
        }
    }
    out.push(quote);
    out
}

/// `str.splitlines`: more line ends than `\n`, and no empty last line.
pub fn split_lines(text: &str, keep_ends: bool) -> Vec<&str> {
    let is_end = |c: char| {
        matches!(c, '\n' | '\r' | '\u{b}' | '\u{c}' | '\u{1c}'..='\u{1e}' | '\u{85}' | '\u{2028}' | '\u{2029}')
    };
    let (mut lines, mut start) = (Vec::new(), 0);
    let mut chars = text.char_indices().peekable();
    while let Some((at, c)) = chars.next() {
        if !is_end(c) {
            continue;
        }
        let mut end = at + c.len_utf8();
        if c == '\r' && matches!(chars.peek(), Some((_, '\n'))) {
            chars.next();
            end += 1;
        }
        lines.push(&text[start..if keep_ends { end } else { at }]);
        start = end;
    }
    if start < text.len() {
        lines.push(&text[start..]);
    }
    lines
}

/// `strftime` for a time in seconds since 1970 as the local clock shows it. Directives without a meaning stay as text.
pub fn strftime(format: &str, local_s: i64) -> String {
    let clock = Clock::of(local_s);
    let mut out = String::new();
    let mut chars = format.chars();
    while let Some(c) = chars.next() {
        if c != '%' {
            out.push(c);
            continue;
        }
        match chars.next() {
            Some('-') => match chars.next() {
                Some(directive) => {
                    let text = clock.directive(directive);
                    let bare = text.trim_start_matches('0');
                    out.push_str(if bare.is_empty() { "0" } else { bare });
                }
                None => out.push_str("%-"),
            },
            Some(directive) => out.push_str(&clock.directive(directive)),
            None => out.push('%'),
        }
    }
    out
}

struct Clock {
    year: i64,
    month: i64,
    day: i64,
    year_day: i64,
    week_day: i64,
    second: i64,
}

const DAYS: [&str; 7] = ["Sunday", "Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday"];
const MONTHS: [&str; 12] = [
    "January",
    "February",
    "March",
    "April",
    "May",
    "June",
    "July",
    "August",
    "September",
    "October",
    "November",
    "December",
];

impl Clock {
    fn of(local_s: i64) -> Clock {
        let (days, second) = (local_s.div_euclid(86_400), local_s.rem_euclid(86_400));
        let (mut year, mut left) = (1970, days);
        let leap = |year: i64| (year % 4 == 0 && year % 100 != 0) || year % 400 == 0;
        let length = |year: i64| if leap(year) { 366 } else { 365 };
        while left < 0 {
            year -= 1;
            left += length(year);
        }
        while left >= length(year) {
            left -= length(year);
            year += 1;
        }
        let year_day = left;
        let months = [31, if leap(year) { 29 } else { 28 }, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31];
        let mut month = 0;
        while left >= months[month] {
            left -= months[month];
            month += 1;
        }
        Clock {
            year,
            month: month as i64 + 1,
            day: left + 1,
            year_day: year_day + 1,
            week_day: (days + 4).rem_euclid(7),
            second,
        }
    }

    fn directive(&self, directive: char) -> String {
        let (hour, minute, second) = (self.second / 3600, self.second / 60 % 60, self.second % 60);
        let (day_name, month_name) = (DAYS[self.week_day as usize], MONTHS[self.month as usize - 1]);
        match directive {
            'Y' => self.year.to_string(),
            'y' => format!("{:02}", self.year.rem_euclid(100)),
            'm' => format!("{:02}", self.month),
            'd' => format!("{:02}", self.day),
            'e' => format!("{:2}", self.day),
            'B' => month_name.to_string(),
            'b' | 'h' => month_name[..3].to_string(),
            'A' => day_name.to_string(),
            'a' => day_name[..3].to_string(),
            'w' => self.week_day.to_string(),
            'j' => format!("{:03}", self.year_day),
            'H' => format!("{hour:02}"),
            'I' => format!("{:02}", (hour + 11) % 12 + 1),
            'M' => format!("{minute:02}"),
            'S' => format!("{second:02}"),
            'p' => (if hour < 12 { "AM" } else { "PM" }).to_string(),
            'F' => format!("{}-{:02}-{:02}", self.year, self.month, self.day),
            'T' => format!("{hour:02}:{minute:02}:{second:02}"),
            'D' => format!("{:02}/{:02}/{:02}", self.month, self.day, self.year.rem_euclid(100)),
            'Z' | 'z' => String::new(),
            '%' => "%".to_string(),
            other => format!("%{other}"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn floats_print_as_in_python() {
        for (x, want) in [
            (1e-5, "1e-05"),
            (1e16, "1e+16"),
            (0.0001, "0.0001"),
            (1.0, "1.0"),
            (-0.0, "-0.0"),
            (1.5e300, "1.5e+300"),
            (123456789012345680.0, "1.2345678901234568e+17"),
            (0.1, "0.1"),
            (1e15, "1000000000000000.0"),
        ] {
            assert_eq!(float_repr(x), want);
            assert_eq!(float_value(x).to_string(), want);
        }
    }

    #[test]
    fn lines_split_as_in_python() {
        assert_eq!(split_lines("a\r\nb\u{2028}c\n\n", false), ["a", "b", "c", ""]);
        assert_eq!(split_lines("a\r\nb", true), ["a\r\n", "b"]);
        assert!(split_lines("", false).is_empty());
    }

    #[test]
    fn dates() {
        // 2024-02-29 13:05:09, a Thursday and day 60 of a leap year
        let s = 1_709_211_909;
        assert_eq!(
            strftime("%d %b %Y|%B %-d|%A %a|%H:%M:%S|%I%p|%j|%y|%%|%F %T", s),
            "29 Feb 2024|February 29|Thursday Thu|13:05:09|01PM|060|24|%|2024-02-29 13:05:09"
        );
        assert_eq!(strftime("%Y-%m-%d %-d %-m", 86_400 * 366), "1971-01-02 2 1");
        assert_eq!(strftime("%Y-%m-%d", -1), "1969-12-31");
    }

    #[test]
    fn repr_as_in_python() {
        let value = Value::from(vec![Value::from("it's"), Value::from(()), Value::from(true), Value::from(1e-7)]);
        assert_eq!(repr(&value), "[\"it's\", None, True, 1e-07]");
    }
}
