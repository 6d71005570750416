//! Grammars over a small vocabulary: what is compiled and refused, what may follow, and what can be taken back.

use textkit::grammar::{json_part, Grammar, Kind};
use textkit::matcher::{Matcher, State};
use textkit::vocabulary::{GrammarEnv, Vocabulary};

/// Every byte, a few longer pieces, two of the same bytes, and three control tokens of which two end an answer.
struct Small {
    env: GrammarEnv,
    pieces: Vec<Vec<u8>>,
}

const TOOL: u32 = 256;
const END: u32 = 257;
const STOP: u32 = 258;
const FIRST_PIECE: u32 = 259;
const TRUE: u32 = 261;
const TWIN: u32 = 263;

fn small() -> Small {
    let mut pieces: Vec<Vec<u8>> = (0..=255u8).map(|byte| vec![byte]).collect();
    for text in ["<tool>", "<end>", "<stop>", "{\"", "\": ", "true", "  ", "a"] {
        pieces.push(text.as_bytes().to_vec());
    }
    let (mut bytes, mut offsets) = (Vec::new(), vec![0]);
    for piece in &pieces {
        bytes.extend(piece);
        offsets.push(bytes.len() as u64);
    }
    let flags: Vec<u8> = (0..pieces.len() as u32).map(|id| u8::from((TOOL..FIRST_PIECE).contains(&id))).collect();
    let vocabulary = Vocabulary { bytes: &bytes, offsets: &offsets, flags: &flags, ends: &[END, STOP] };
    Small { env: GrammarEnv::new(&vocabulary).unwrap(), pieces }
}

impl Small {
    fn matcher(&self, kind: Kind, source: &str) -> Matcher {
        Grammar::compile(&self.env, kind, source).unwrap_or_else(|e| panic!("{source}: {e}")).matcher().unwrap()
    }

    fn error(&self, kind: Kind, source: &str) -> String {
        match Grammar::compile(&self.env, kind, source) {
            Ok(_) => panic!("compiled: {source}"),
            Err(error) => error.text().to_string(),
        }
    }

    fn accepts(&self, kind: Kind, source: &str, text: &str) -> bool {
        let mut matcher = self.matcher(kind, source);
        let tokens = bytes(text);
        if matcher.validate(&tokens).unwrap() < tokens.len() {
            return false;
        }
        matcher.consume(&tokens).unwrap();
        matcher.state().unwrap() != State::Open
    }

    fn allowed(&self, matcher: &mut Matcher) -> Vec<u32> {
        let mut words = vec![u32::MAX; 12];
        matcher.mask(&mut words).unwrap();
        assert_eq!(words[9..], [0, 0, 0], "nothing beyond the vocabulary");
        (0..self.pieces.len() as u32).filter(|id| words[*id as usize / 32] >> (id % 32) & 1 == 1).collect()
    }
}

fn bytes(text: &str) -> Vec<u32> {
    text.bytes().map(u32::from).collect()
}

const PERSON: &str = r#"{"type": "object", "properties": {"a": {"type": "boolean"}}, "required": ["a"],
    "additionalProperties": false}"#;

#[test]
fn masks_follow_the_answer() {
    let small = small();
    let mut matcher = small.matcher(Kind::JsonSchema, PERSON);
    assert_eq!(small.allowed(&mut matcher), [u32::from(b'{'), FIRST_PIECE]);
    matcher.consume(&[FIRST_PIECE]).unwrap();
    assert_eq!(small.allowed(&mut matcher), [u32::from(b'a'), TWIN], "two tokens of the same bytes");
    matcher.consume(&[TWIN, FIRST_PIECE + 1]).unwrap();
    let second_space = bytes("\t ft").into_iter().chain([TRUE]).collect::<Vec<_>>();
    assert_eq!(small.allowed(&mut matcher), second_space);
    matcher.consume(&[TRUE]).unwrap();
    assert_eq!(matcher.state().unwrap(), State::Open);
    matcher.consume(&bytes("}")).unwrap();
    assert_eq!(matcher.state().unwrap(), State::Complete);
    assert_eq!(small.allowed(&mut matcher), [END, STOP]);
    assert_eq!(matcher.validate(&bytes(" ")).unwrap(), 0);
}

#[test]
fn what_was_consumed_can_be_taken_back_also_behind_the_end() {
    let small = small();
    let mut matcher = small.matcher(Kind::JsonSchema, PERSON);
    let start = small.allowed(&mut matcher);
    let text = bytes("{\"a\":true}");
    assert_eq!(matcher.validate(&bytes("{\"a\":tru3")).unwrap(), 8, "the wrong one and no more");
    for _ in 0..3 {
        matcher.consume(&text).unwrap();
        assert_eq!(matcher.state().unwrap(), State::Complete);
        matcher.rollback(text.len()).unwrap();
        assert_eq!(small.allowed(&mut matcher), start);
    }
    let mut copy = matcher.copy();
    copy.consume(&text).unwrap();
    assert_eq!(small.allowed(&mut matcher), start, "a copy is on its own");
}

#[test]
fn ends_may_follow_where_the_grammar_may_end() {
    let small = small();
    let mut matcher = small.matcher(Kind::Regex, "[0-9]+");
    assert!(!small.allowed(&mut matcher).contains(&END));
    matcher.consume(&bytes("4")).unwrap();
    assert_eq!(matcher.state().unwrap(), State::Accepting);
    let allowed = small.allowed(&mut matcher);
    assert!(allowed.contains(&END) && allowed.contains(&STOP) && !allowed.contains(&TOOL));
    assert_eq!(matcher.validate(&[u32::from(b'2'), STOP]).unwrap(), 2);
    matcher.consume(&[STOP]).unwrap();
    assert_eq!(matcher.state().unwrap(), State::Complete);
}

#[test]
fn kinds_of_grammars() {
    let small = small();
    for (text, yes) in [("{}", true), ("{\"a\": [1, null]}", true), ("[]", false), ("1", false), (" {}", false)] {
        assert_eq!(small.accepts(Kind::JsonObject, "", text), yes, "{text}");
    }
    for (text, yes) in [("ja", true), ("jawohl", true), ("nein", true), ("jawo", false), ("neinja", false)] {
        assert_eq!(small.accepts(Kind::Choice, r#"["ja", "jawohl", "nein"]"#, text), yes, "{text}");
    }
    assert!(small.accepts(Kind::Choice, r#"["a\"b\\c\n\u20ac/"]"#, "a\"b\\c\n\u{20ac}/"));
    assert!(small.accepts(Kind::Regex, r"/\d{2}", "/42"));
    let lark = format!("start: \"call \" body\nbody: %json {}", json_part(PERSON).unwrap());
    assert!(small.accepts(Kind::Lark, &lark, "call {\"a\": false}"));
    assert!(!small.accepts(Kind::Lark, &lark, "call {}"));
    let with_control = "start: <tool> /[a-z]+/";
    let mut matcher = small.matcher(Kind::Lark, with_control);
    assert_eq!(small.allowed(&mut matcher), [TOOL], "the token, not the text that spells it");
}

#[test]
fn whitespace_is_bounded() {
    let small = small();
    for text in ["{\"a\":true}", "{ \"a\" : true }", "{\n  \"a\": true\n}", "{\r\n\t\"a\":\ttrue}"] {
        assert!(small.accepts(Kind::JsonSchema, PERSON, text), "{text}");
    }
    for text in ["{   \"a\":true}", "{\n\n\"a\":true}", "{\"a\":true} "] {
        assert!(!small.accepts(Kind::JsonSchema, PERSON, text), "{text}");
    }
    let free = PERSON.replacen('{', r#"{"x-guidance": {"whitespace_pattern": "[ ]*"}, "#, 1);
    assert!(small.accepts(Kind::JsonSchema, &free, "{     \"a\":true}"), "unless the client says so");
}

#[test]
fn strings_have_no_broken_escapes() {
    let small = small();
    let schema = r#"{"type": "string"}"#;
    for text in [r#""\n\"\\""#, "\"\u{e9}\u{1f600}\"", r#""\u0007""#] {
        assert!(small.accepts(Kind::JsonSchema, schema, text), "{text}");
    }
    for text in [r#""\ud800""#, r#""\x""#, "\"\n\"", "\"\\\u{e9}\""] {
        assert!(!small.accepts(Kind::JsonSchema, schema, text), "{text}");
    }
    let mut matcher = small.matcher(Kind::JsonSchema, schema);
    assert_eq!(matcher.validate(&[u32::from(b'"'), 0xff]).unwrap(), 1, "no byte that is in no UTF-8");
    assert_eq!(matcher.validate(&[u32::from(b'"'), 0xe2, 0x28]).unwrap(), 2, "no half of a character");
}

#[test]
fn what_cannot_be_followed_is_named() {
    let small = small();
    for (schema, name) in [
        (r#"{"type": "array", "uniqueItems": true}"#, "uniqueItems"),
        (r#"{"contains": {"type": "string"}}"#, "contains"),
        (r#"{"not": {"pattern": "a"}}"#, "pattern"),
        (r##"{"$ref": "#/$defs/none"}"##, "$ref"),
        (r#"{"$ref": "http://example.com/other.json"}"#, "$ref"),
        (r#"{"type": "strin"}"#, "type"),
        (r#"{"type": "string", "format": "no-such"}"#, "format"),
        (r##"{"$defs": {"a": {"$ref": "#/$defs/a", "minimum": 1}}, "$ref": "#/$defs/a"}"##, "$ref"),
        (r#"{"type": "string", "pattern": "(?=a)b"}"#, "pattern"),
        (r#"{"properties": {"a": {"propertyNames": {"format": "uri"}}}}"#, "propertyNames"),
        (r#"{"patternProperties": {"a": {"type": "null"}, "b": {"type": "string"}}}"#, "patternProperties"),
        ("false", "nothing satisfies"),
        ("[]", "JSON schema"),
        ("{", "JSON"),
        (r#"{"x-guidance": 1}"#, "x-guidance"),
    ] {
        let error = small.error(Kind::JsonSchema, schema);
        assert!(error.starts_with("expected ") && error.contains(name), "{schema}: {error}");
        assert!(error.len() < 900 && !error.contains('\n'), "{error}");
    }
    assert!(small.error(Kind::Regex, "(").contains("regular expression"));
    assert!(small.error(Kind::Lark, "start: missing").contains("missing"));
    for choice in ["[]", "[\"\"]", "\"a\"", "[1]"] {
        assert!(small.error(Kind::Choice, choice).contains("choose"), "{choice}");
    }
    assert!(small.accepts(
        Kind::JsonSchema,
        r#"{"x-guidance": {"lenient": true}, "type": "string", "format": "no-such"}"#,
        "\"a\""
    ));
    let schema = r#"{"x-guidance": {"lenient": true}, "type": "array", "uniqueItems": true}"#;
    assert!(small.accepts(Kind::JsonSchema, schema, "[1,1]"));
}

/// Refused or compiled, but not worked on for ever, and neither is the first mask.
#[test]
fn hostile_sources_are_bounded() {
    let small = small();
    let names: Vec<String> = (0..10_000).map(|i| format!("\"value number {i}\"")).collect();
    let many = format!("[{}]", names.join(","));
    let deep = format!("{}{{}}{}", "{\"items\":".repeat(120), "}".repeat(120));
    let wide: Vec<String> =
        (0..3000).map(|i| format!("\"p{i}\": {{\"type\": \"string\", \"maxLength\": {i}}}")).collect();
    let wide = format!("{{\"properties\": {{{}}}}}", wide.join(","));
    let recursive = r##"{"$defs": {"a": {"anyOf": [{"$ref": "#/$defs/a"}, {"$ref": "#/$defs/b"}]},
        "b": {"allOf": [{"$ref": "#/$defs/a"}, {"$ref": "#/$defs/b"}]}}, "$ref": "#/$defs/b"}"##;
    let mut doubling = r#"{"type": "string"}"#.to_string();
    for _ in 0..12 {
        doubling = format!(r#"{{"anyOf": [{doubling}, {{"not": {doubling}}}]}}"#);
    }
    let sources = [
        (Kind::JsonSchema, format!("{{\"enum\": {many}}}")),
        (Kind::Choice, many),
        (Kind::JsonSchema, deep),
        (Kind::JsonSchema, wide),
        (Kind::JsonSchema, recursive.to_string()),
        (Kind::JsonSchema, doubling),
        (Kind::Regex, "(a?){5000}a{5000}".to_string()),
        (Kind::Regex, "((a{1,100}){1,100}){1,100}".to_string()),
        (Kind::Regex, "(.*a.*b.*c.*){50}".to_string()),
        (Kind::JsonSchema, r#"{"type": "string", "pattern": "^(([a-z])+.)+[A-Z]([a-z])+$"}"#.to_string()),
        (Kind::Lark, "start: a\na: a a | \"x\"".to_string()),
        (Kind::Regex, "a".repeat(2 << 20)),
    ];
    for (kind, source) in sources {
        let outcome = Grammar::compile(&small.env, kind, &source);
        if let Ok(grammar) = outcome {
            let mut words = vec![0; 12];
            let _ = grammar.matcher().unwrap().mask(&mut words);
        }
    }
}

/// Schemas whose keywords are said in others: what is accepted and what is not.
#[test]
fn rewritten_keywords() {
    let small = small();
    for (schema, yes, no) in [
        (r#"{"not": {"type": ["string", "null"]}}"#, vec!["1", "{}", "true"], vec!["\"a\"", "null"]),
        (
            r#"{"not": {"enum": ["ab", "a", 3, true]}}"#,
            vec!["\"\"", "\"b\"", "\"abc\"", "2", "3.5", "false", "[]"],
            vec!["\"ab\"", "\"a\"", "3", "true"],
        ),
        (r#"{"type": "object", "not": {"required": ["a"]}}"#, vec!["{}", "{\"b\":1}"], vec!["{\"a\":1}"]),
        (
            r#"{"if": {"properties": {"k": {"const": 1}}, "required": ["k"]}, "then": {"required": ["x"]},
            "type": "object", "properties": {"k": {"type": "integer"}, "x": {"type": "null"}}}"#,
            vec!["{}", "{\"k\":2}", "{\"k\":1,\"x\":null}"],
            vec!["{\"k\":1}"],
        ),
        (
            r#"{"type": "object", "dependentRequired": {"a": ["b"]}}"#,
            vec!["{}", "{\"b\":1}", "{\"a\":1,\"b\":1}"],
            vec!["{\"a\":1}"],
        ),
        (r#"{"type": "object", "propertyNames": {"maxLength": 2}}"#, vec!["{}", "{\"ab\":1}"], vec!["{\"abc\":1}"]),
        (
            r#"{"type": "object", "properties": {"a": true}, "anyOf": [{"properties": {"b": {"type": "null"}},
            "required": ["b"]}, {"properties": {"c": true}, "required": ["c"]}], "unevaluatedProperties": false}"#,
            vec!["{\"b\":null}", "{\"a\":1,\"b\":null}", "{\"c\":1}", "{\"b\":null,\"c\":1}"],
            vec!["{}", "{\"b\":1}", "{\"c\":1,\"d\":1}"],
        ),
        (
            r#"{"type": "array", "prefixItems": [{"type": "null"}], "unevaluatedItems": false}"#,
            vec!["[]", "[null]"],
            vec!["[1]", "[null,null]"],
        ),
        (
            r##"{"$id": "http://x.y/root.json", "$defs": {"n": {"$anchor": "node", "type": "array",
            "items": {"$ref": "root.json#node"}}}, "$ref": "#node"}"##,
            vec!["[]", "[[],[[]]]"],
            vec!["[1]", "{}"],
        ),
        (
            r#"{"oneOf": [{"type": "integer", "minimum": 2}, {"type": "integer", "maximum": 5}]}"#,
            vec!["1", "6"],
            vec!["3", "\"a\""],
        ),
    ] {
        for text in yes {
            assert!(small.accepts(Kind::JsonSchema, schema, text), "{schema} takes {text}");
        }
        for text in no {
            assert!(!small.accepts(Kind::JsonSchema, schema, text), "{schema} refuses {text}");
        }
    }
}

#[test]
fn formats_that_are_said_in_patterns() {
    let small = small();
    for (format, yes, no) in [
        ("json-pointer", vec!["", "/a~0b/c"], vec!["a", "/~2"]),
        ("relative-json-pointer", vec!["0#", "12/a"], vec!["01", "/a"]),
        ("uri-reference", vec!["/a/b?c=d#e", "a%20b", "//x.y/z"], vec!["a b", "%2"]),
        ("idn-email", vec!["a@b.de"], vec!["ab"]),
    ] {
        let schema = format!("{{\"type\": \"string\", \"format\": \"{format}\"}}");
        for text in yes {
            assert!(small.accepts(Kind::JsonSchema, &schema, &format!("\"{text}\"")), "{format} {text}");
        }
        for text in no {
            assert!(!small.accepts(Kind::JsonSchema, &schema, &format!("\"{text}\"")), "{format} {text}");
        }
    }
    let both = r#"{"type": "string", "format": "json-pointer", "pattern": "^/x", "maxLength": 2.0}"#;
    assert!(small.accepts(Kind::JsonSchema, both, "\"/x\""));
    assert!(!small.accepts(Kind::JsonSchema, both, "\"/y\"") && !small.accepts(Kind::JsonSchema, both, "\"/xy\""));
}

#[test]
fn a_cover_has_the_bytes_and_no_control_tokens() {
    let small = small();
    let text = b"{\"true<end>\xff";
    let cover = small.env.cover(text);
    assert_eq!(cover[..2], [FIRST_PIECE, FIRST_PIECE + 2]);
    let joined: Vec<u8> = cover.iter().flat_map(|id| small.pieces[*id as usize].clone()).collect();
    assert_eq!(joined, text[..11]);
}

#[test]
fn damaged_vocabularies_are_refused() {
    for (offsets, flags, ends) in
        [(vec![0u64, 9], vec![0u8], vec![]), (vec![0, 1], vec![0], vec![1u32]), (vec![0], vec![0], vec![])]
    {
        assert!(GrammarEnv::new(&Vocabulary { bytes: b"a", offsets: &offsets, flags: &flags, ends: &ends }).is_err());
    }
    let nobody_ends = Vocabulary { bytes: b"a", offsets: &[0, 1], flags: &[0], ends: &[] };
    assert!(GrammarEnv::new(&nobody_ends).is_ok());
}
