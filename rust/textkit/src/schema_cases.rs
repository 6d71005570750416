//! unevaluatedProperties and unevaluatedItems: a schema is taken apart into the cases in which it holds, so that it is
//! known of each which properties and items were looked at, and what is left can be closed.

use std::collections::BTreeSet;

use serde_json::{json, Value};

use crate::schema::{all_of, dependents, unsupported, within, without, Object, Rewriter};
use crate::schema_refs::child;
use crate::Outcome;

const MOST_CASES: usize = 64;
const DEEPEST: usize = 24;

/// A way to hold: all of `parts` do, and they look at what the rest says.
#[derive(Clone, Default)]
pub(crate) struct Case {
    parts: Vec<Value>,
    names: BTreeSet<String>,
    patterns: BTreeSet<String>,
    all_properties: bool,
    prefix: usize,
    all_items: bool,
    some_items: bool,
}

impl Case {
    pub(crate) fn whole(self) -> Value {
        all_of(self.parts)
    }

    fn of(part: Value) -> Case {
        Case { parts: vec![part], ..Case::default() }
    }

    fn and(&self, other: &Case) -> Case {
        Case {
            parts: self.parts.iter().chain(&other.parts).cloned().collect(),
            names: self.names.union(&other.names).cloned().collect(),
            patterns: self.patterns.union(&other.patterns).cloned().collect(),
            all_properties: self.all_properties || other.all_properties,
            prefix: self.prefix.max(other.prefix),
            all_items: self.all_items || other.all_items,
            some_items: self.some_items || other.some_items,
        }
    }

    fn close_properties(&mut self, rest: Value) {
        if !self.all_properties {
            let all = |names: &BTreeSet<String>| -> Object { names.iter().map(|n| (n.clone(), json!(true))).collect() };
            let mut part = Object::new();
            part.insert("properties".to_string(), Value::Object(all(&self.names)));
            if !self.patterns.is_empty() {
                part.insert("patternProperties".to_string(), Value::Object(all(&self.patterns)));
            }
            part.insert("additionalProperties".to_string(), rest);
            self.parts.push(Value::Object(part));
        }
        self.all_properties = true;
    }

    fn close_items(&mut self, rest: Value) -> Outcome<()> {
        if !self.all_items {
            if self.some_items {
                return unsupported("unevaluatedItems", "beside contains it is not supported");
            }
            self.parts.push(json!({"prefixItems": vec![true; self.prefix], "items": rest}));
        }
        self.all_items = true;
        Ok(())
    }
}

fn product(left: &[Case], right: &[Case]) -> Outcome<Vec<Case>> {
    if left.len() * right.len() > MOST_CASES {
        return unsupported("unevaluatedProperties", "too many combinations of branches");
    }
    Ok(left.iter().flat_map(|a| right.iter().map(move |b| a.and(b))).collect())
}

impl<'a> Rewriter<'a> {
    pub(crate) fn cases(&mut self, node: &'a Value, at: &str, depth: usize) -> Outcome<Vec<Case>> {
        self.count("unevaluatedProperties")?;
        if depth > DEEPEST {
            return unsupported("unevaluatedProperties", "a schema that leads back to itself is not supported there");
        }
        let object = match node {
            Value::Bool(true) => return Ok(vec![Case::default()]),
            Value::Bool(false) => return Ok(Vec::new()),
            Value::Object(object) => object,
            other => return unsupported("schema", &format!("expected an object or a boolean; got {other}")),
        };
        let mut cases = vec![self.own_case(object, at)?];
        for (key, value) in object {
            let place = child(at, key);
            let more = match key.as_str() {
                "allOf" => {
                    for (i, branch) in value.as_array().into_iter().flatten().enumerate() {
                        let branch = self.cases(branch, &child(&place, &i.to_string()), depth + 1)?;
                        cases = product(&cases, &branch)?;
                    }
                    continue;
                }
                "anyOf" => self.any_cases(value, &place, depth)?,
                "oneOf" => self.one_cases(value, &place, depth)?,
                "$ref" | "$dynamicRef" | "$recursiveRef" => {
                    let reference = value.as_str().unwrap_or("");
                    let (place, target) = match key == "$ref" {
                        true => self.refs.find(reference, at)?,
                        false => self.refs.find_dynamic(reference, at)?,
                    };
                    self.cases(target, &place, depth + 1)?
                }
                "if" => self.condition_cases(object, at, depth)?,
                "dependentSchemas" | "dependencies" | "dependentRequired" => {
                    for (name, needed, place) in dependents(key, value, &place)? {
                        let there = Case::of(json!({"required": [name]}));
                        let needed = match needed.is_array() {
                            true => vec![Case::of(self.needed(needed, &place)?)],
                            false => self.cases(needed, &place, depth + 1)?,
                        };
                        let mut either = vec![Case::of(without(name))];
                        either.extend(product(&[there], &needed)?);
                        cases = product(&cases, &either)?;
                    }
                    continue;
                }
                _ => continue,
            };
            cases = product(&cases, &more)?;
        }
        self.close(object, at, &mut cases)?;
        Ok(cases)
    }

    fn close(&mut self, object: &'a Object, at: &str, cases: &mut [Case]) -> Outcome<()> {
        if let Some(rest) = object.get("unevaluatedProperties") {
            let rest = self.schema(rest, &child(at, "unevaluatedProperties"))?;
            cases.iter_mut().for_each(|case| case.close_properties(rest.clone()));
        }
        if let Some(rest) = object.get("unevaluatedItems") {
            let rest = self.schema(rest, &child(at, "unevaluatedItems"))?;
            if rest == Value::Bool(true) {
                cases.iter_mut().for_each(|case| case.all_items = true);
            }
            cases.iter_mut().try_for_each(|case| case.close_items(rest.clone()))?;
        }
        Ok(())
    }

    fn own_case(&mut self, object: &'a Object, at: &str) -> Outcome<Case> {
        let mut case = Case::of(self.own(object, at)?);
        for (key, value) in object {
            case.parts.extend(self.constraint(object, key, value, &child(at, key))?);
        }
        let keys = |key: &str| object.get(key).and_then(Value::as_object).into_iter().flatten().map(|(k, _)| k.clone());
        case.names = keys("properties").collect();
        case.patterns = keys("patternProperties").collect();
        case.all_properties = object.contains_key("additionalProperties");
        case.prefix = object.get("prefixItems").and_then(Value::as_array).map_or(0, Vec::len);
        case.all_items = object.contains_key("items");
        case.some_items = object.contains_key("contains");
        Ok(case)
    }

    /// Every set of branches that may hold: what all that hold look at counts.
    fn any_cases(&mut self, value: &'a Value, at: &str, depth: usize) -> Outcome<Vec<Case>> {
        let mut sets: Vec<Vec<Case>> = vec![vec![Case::default()]];
        for (i, branch) in value.as_array().into_iter().flatten().enumerate() {
            let branch = self.cases(branch, &child(at, &i.to_string()), depth + 1)?;
            for j in 0..sets.len() {
                let with = product(&sets[j], &branch)?;
                sets.push(with);
            }
            if sets.len() > MOST_CASES {
                return unsupported("unevaluatedProperties", "too many branches of anyOf");
            }
        }
        Ok(sets.into_iter().skip(1).flatten().collect())
    }

    fn one_cases(&mut self, value: &'a Value, at: &str, depth: usize) -> Outcome<Vec<Case>> {
        let exclusive = self.exclusive(value, at).map_err(|e| within("unevaluatedProperties", e))?;
        let mut all = Vec::new();
        for (i, branch) in value.as_array().into_iter().flatten().enumerate() {
            let branch = self.cases(branch, &child(at, &i.to_string()), depth + 1)?;
            all.extend(product(&[Case::of(exclusive[i].clone())], &branch)?);
        }
        Ok(all)
    }

    fn condition_cases(&mut self, object: &'a Object, at: &str, depth: usize) -> Outcome<Vec<Case>> {
        let place = child(at, "if");
        let mut branch = |key: &str| match object.get(key) {
            Some(schema) => self.cases(schema, &child(at, key), depth + 1),
            None => Ok(vec![Case::default()]),
        };
        let (yes, no) = (branch("then")?, branch("else")?);
        let holds = self.cases(&object["if"], &place, depth + 1)?;
        let fails = self.negated(&object["if"], &place).map_err(|e| within("if", e))?;
        let mut all = product(&holds, &yes)?;
        all.extend(product(&[Case::of(fails)], &no)?);
        Ok(all)
    }
}
