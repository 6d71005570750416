//! The opposite of a JSON schema, where it can be said in the keywords that llguidance has.

use serde_json::{json, Value};

use crate::schema::{all_of, any_of, dependents, unsupported, Object, Rewriter};
use crate::schema_refs::child;
use crate::Outcome;

const TYPES: [&str; 6] = ["null", "boolean", "number", "string", "array", "object"];
const DEEPEST: usize = 40;

impl<'a> Rewriter<'a> {
    /// What the schema at `at` refuses. Numbers with a fraction are left out where a schema takes whole ones.
    pub(crate) fn negated(&mut self, node: &'a Value, at: &str) -> Outcome<Value> {
        self.count("not")?;
        let object = match node {
            Value::Bool(value) => return Ok(json!(!value)),
            Value::Object(object) => object,
            other => return unsupported("not", &format!("expected a schema; got {other}")),
        };
        self.depth += 1;
        if self.depth > DEEPEST {
            return unsupported("not", "a schema that leads back to itself is not supported there");
        }
        let mut ways = Vec::new();
        for (key, value) in object {
            ways.extend(self.broken(object, key, value, at)?);
        }
        self.depth -= 1;
        Ok(any_of(ways))
    }

    /// The ways to break one keyword.
    fn broken(&mut self, object: &'a Object, key: &str, value: &'a Value, at: &str) -> Outcome<Vec<Value>> {
        let place = child(at, key);
        let number = value.as_f64().unwrap_or(0.0);
        let least = |kind: &str, keyword: &str| vec![json!({"type": kind, keyword: number as u64 + 1})];
        let most = |kind: &str, keyword: &str| match number > 0.0 {
            true => vec![json!({"type": kind, keyword: number as u64 - 1})],
            false => Vec::new(),
        };
        Ok(match key {
            "type" => vec![other_types(value)],
            "const" => vec![none_of(std::slice::from_ref(value))?],
            "enum" => vec![none_of(value.as_array().map_or(&[], Vec::as_slice))?],
            "minimum" => vec![json!({"type": "number", "exclusiveMaximum": value})],
            "maximum" => vec![json!({"type": "number", "exclusiveMinimum": value})],
            "exclusiveMinimum" => vec![json!({"type": "number", "maximum": value})],
            "exclusiveMaximum" => vec![json!({"type": "number", "minimum": value})],
            "minLength" => most("string", "maxLength"),
            "maxLength" => least("string", "minLength"),
            "minItems" => most("array", "maxItems"),
            "maxItems" => least("array", "minItems"),
            "minProperties" => most("object", "maxProperties"),
            "maxProperties" => least("object", "minProperties"),
            "required" => names_of(value).map(|name| json!({"type": "object", "properties": {name: false}})).collect(),
            "properties" => self.broken_properties(value, &place)?,
            "prefixItems" => self.broken_items(value, &place)?,
            "items" | "additionalProperties" => self.broken_rest(object, key, value)?,
            "not" => vec![self.schema(value, &place)?],
            "anyOf" => vec![all_of(self.each_negated(value, &place)?)],
            "allOf" => self.each_negated(value, &place)?,
            "oneOf" => self.broken_one_of(value, &place)?,
            "$ref" => {
                let (place, target) = self.refs.find(value.as_str().unwrap_or(""), at)?;
                vec![self.negated(target, &place)?]
            }
            "if" => self.broken_condition(object, at)?,
            "dependentRequired" | "dependentSchemas" | "dependencies" => self.broken_dependents(key, value, &place)?,
            "patternProperties" if all_true(value) => Vec::new(),
            "uniqueItems" | "unevaluatedProperties" | "unevaluatedItems"
                if value.is_boolean() && !refuses(key, value) =>
            {
                Vec::new()
            }
            "pattern"
            | "format"
            | "multipleOf"
            | "patternProperties"
            | "propertyNames"
            | "contains"
            | "uniqueItems"
            | "unevaluatedProperties"
            | "unevaluatedItems"
            | "$dynamicRef"
            | "$recursiveRef"
            | "additionalItems" => {
                return unsupported("not", &format!("the opposite of '{key}' is not supported"));
            }
            _ => Vec::new(),
        })
    }

    fn each_negated(&mut self, value: &'a Value, at: &str) -> Outcome<Vec<Value>> {
        let Some(branches) = value.as_array() else { return unsupported("not", "expected a list of schemas") };
        branches.iter().enumerate().map(|(i, branch)| self.negated(branch, &child(at, &i.to_string()))).collect()
    }

    fn broken_properties(&mut self, value: &'a Value, at: &str) -> Outcome<Vec<Value>> {
        let Some(properties) = value.as_object() else { return unsupported("properties", "expected an object") };
        let mut ways = Vec::new();
        for (name, schema) in properties {
            let broken = self.negated(schema, &child(at, name))?;
            if broken != Value::Bool(false) {
                ways.push(json!({"type": "object", "properties": {name: broken}, "required": [name]}));
            }
        }
        Ok(ways)
    }

    fn broken_items(&mut self, value: &'a Value, at: &str) -> Outcome<Vec<Value>> {
        let mut ways = Vec::new();
        for (i, broken) in self.each_negated(value, at)?.into_iter().enumerate() {
            if broken == Value::Bool(false) {
                continue;
            }
            let mut items = vec![Value::Bool(true); i];
            items.push(broken);
            ways.push(json!({"type": "array", "minItems": i + 1, "prefixItems": items}));
        }
        Ok(ways)
    }

    /// Something beyond what is named, where nothing may be.
    fn broken_rest(&mut self, object: &'a Object, key: &str, value: &'a Value) -> Outcome<Vec<Value>> {
        let named =
            |keyword: &str| object.get(keyword).is_some_and(|named| named.as_object().is_some_and(|n| !n.is_empty()));
        match (key, value) {
            (_, Value::Bool(true)) => Ok(Vec::new()),
            ("items", Value::Bool(false)) => {
                let prefix = object.get("prefixItems").and_then(Value::as_array).map_or(0, Vec::len);
                Ok(vec![json!({"type": "array", "minItems": prefix + 1})])
            }
            ("additionalProperties", Value::Bool(false)) if !named("properties") && !named("patternProperties") => {
                Ok(vec![json!({"type": "object", "minProperties": 1})])
            }
            _ => unsupported("not", &format!("the opposite of '{key}' is not supported")),
        }
    }

    fn broken_one_of(&mut self, value: &'a Value, at: &str) -> Outcome<Vec<Value>> {
        let holds = self.list("oneOf", value, at)?;
        let mut ways = vec![all_of(self.each_negated(value, at)?)];
        for i in 0..holds.len() {
            for j in i + 1..holds.len() {
                self.count("oneOf")?;
                ways.push(all_of(vec![holds[i].clone(), holds[j].clone()]));
            }
        }
        Ok(ways)
    }

    fn broken_condition(&mut self, object: &'a Object, at: &str) -> Outcome<Vec<Value>> {
        let place = child(at, "if");
        let mut ways = Vec::new();
        if let Some(yes) = object.get("then") {
            let holds = self.schema(&object["if"], &place)?;
            ways.push(all_of(vec![holds, self.negated(yes, &child(at, "then"))?]));
        }
        if let Some(no) = object.get("else") {
            let fails = self.negated(&object["if"], &place)?;
            ways.push(all_of(vec![fails, self.negated(no, &child(at, "else"))?]));
        }
        Ok(ways)
    }

    fn broken_dependents(&mut self, key: &str, value: &'a Value, at: &str) -> Outcome<Vec<Value>> {
        let mut ways = Vec::new();
        for (name, needed, place) in dependents(key, value, at)? {
            let there = json!({"type": "object", "required": [name]});
            if needed.is_array() {
                let without = |other: &str| json!({"type": "object", "properties": {other: false}});
                ways.extend(names_of(needed).map(|other| all_of(vec![there.clone(), without(other)])));
            } else {
                ways.push(all_of(vec![there, self.negated(needed, &place)?]));
            }
        }
        Ok(ways)
    }
}

fn names_of(value: &Value) -> impl Iterator<Item = &str> {
    value.as_array().map_or(&[] as &[Value], Vec::as_slice).iter().filter_map(Value::as_str)
}

fn all_true(value: &Value) -> bool {
    value.as_object().is_some_and(|named| named.values().all(|schema| schema == &Value::Bool(true)))
}

fn refuses(key: &str, value: &Value) -> bool {
    value == &Value::Bool(key == "uniqueItems")
}

fn other_types(value: &Value) -> Value {
    let given: Vec<&str> = match value {
        Value::String(kind) => vec![kind],
        other => names_of(other).collect(),
    };
    let taken = |kind: &str| given.contains(&kind) || (kind == "number" && given.contains(&"integer"));
    of_types(TYPES.into_iter().filter(|kind| !taken(kind)).collect())
}

fn of_types(kinds: Vec<&str>) -> Value {
    match kinds.is_empty() {
        true => Value::Bool(false),
        false => json!({ "type": kinds }),
    }
}

/// Everything but these values.
fn none_of(values: &[Value]) -> Outcome<Value> {
    let of_kind = |test: fn(&Value) -> bool| values.iter().any(test);
    let mut ways = Vec::new();
    let mut kinds = Vec::new();
    if of_kind(|v| v.is_array() || v.is_object()) {
        return unsupported("not", "the opposite of a const or enum of arrays or objects is not supported");
    }
    if !of_kind(Value::is_null) {
        kinds.push("null");
    }
    kinds.extend(["array", "object"]);
    for value in [true, false] {
        if !values.contains(&json!(value)) {
            ways.push(json!({ "const": value }));
        }
    }
    let mut numbers: Vec<&Value> = values.iter().filter(|v| v.is_number()).collect();
    numbers.sort_by(|a, b| a.as_f64().partial_cmp(&b.as_f64()).unwrap_or(std::cmp::Ordering::Equal));
    numbers.dedup_by(|a, b| a.as_f64() == b.as_f64());
    if numbers.is_empty() {
        kinds.push("number");
    } else {
        ways.push(json!({"type": "number", "exclusiveMaximum": numbers[0]}));
        for pair in numbers.windows(2) {
            ways.push(json!({"type": "number", "exclusiveMinimum": pair[0], "exclusiveMaximum": pair[1]}));
        }
        ways.push(json!({"type": "number", "exclusiveMinimum": numbers[numbers.len() - 1]}));
    }
    let texts: Vec<&str> = values.iter().filter_map(Value::as_str).collect();
    if texts.is_empty() {
        kinds.push("string");
    } else {
        let words: Vec<Vec<char>> = texts.iter().map(|text| text.chars().collect()).collect();
        let words: Vec<&[char]> = words.iter().map(Vec::as_slice).collect();
        ways.push(json!({"type": "string", "pattern": format!("^{}$", other_words(&words))}));
    }
    ways.push(of_types(kinds));
    Ok(any_of(ways))
}

/// A regular expression of all texts but these.
fn other_words(words: &[&[char]]) -> String {
    let mut firsts: Vec<char> = words.iter().filter_map(|word| word.first().copied()).collect();
    firsts.sort_unstable();
    firsts.dedup();
    let code = |c: &char| format!("\\x{{{:X}}}", u32::from(*c));
    let mut ways: Vec<String> = Vec::new();
    if !words.iter().any(|word| word.is_empty()) {
        ways.push(String::new());
    }
    let class: String = firsts.iter().map(code).collect();
    ways.push(if class.is_empty() { "[\\s\\S]+".to_string() } else { format!("[^{class}][\\s\\S]*") });
    for first in &firsts {
        let rest: Vec<&[char]> =
            words.iter().filter(|word| word.first() == Some(first)).map(|word| &word[1..]).collect();
        ways.push(format!("{}{}", code(first), other_words(&rest)));
    }
    format!("(?:{})", ways.join("|"))
}
