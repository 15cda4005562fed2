//! The tables.

use super::table::{Keys, Language, Quote, Traits};

const fn quote(open: &'static str, close: &'static str, escapes: bool, multiline: bool) -> Quote {
    Quote {
        open,
        close,
        escapes,
        multiline,
    }
}

const DOUBLE: Quote = quote("\"", "\"", true, false);
const DOUBLE_LONG: Quote = quote("\"", "\"", true, true);
const SINGLE: Quote = quote("'", "'", true, false);
const SINGLE_RAW: Quote = quote("'", "'", false, true);
const TICK: Quote = quote("`", "`", true, true);
const TICK_RAW: Quote = quote("`", "`", false, true);
const TRIPLE: Quote = quote("\"\"\"", "\"\"\"", true, true);
const TRIPLE_SINGLE: Quote = quote("'''", "'''", true, true);

const C_COMMENT: Option<(&str, &str)> = Some(("/*", "*/"));

const CODE: Traits = Traits::CALLS.and(Traits::CAPITALS);

/// What most languages have in common; tables name what differs.
const BASE: Language = Language {
    names: &[],
    line_comments: &["//"],
    block_comment: C_COMMENT,
    strings: &[DOUBLE, SINGLE],
    keywords: &[],
    constants: &["true", "false", "null"],
    types: &[],
    keys: Keys::None,
    traits: CODE,
};

/// The table of a name or extension, lower case.
pub(super) fn find(name: &str) -> Option<&'static Language> {
    LANGUAGES
        .iter()
        .find(|language| language.names.contains(&name))
}

// A table is read across: one word a line would make a page of each language.
#[rustfmt::skip]
static LANGUAGES: &[Language] = &[
    Language {
        names: &["rust", "rs"],
        strings: &[DOUBLE_LONG],
        keywords: &[
            "as", "async", "await", "break", "const", "continue", "crate", "dyn", "else", "enum",
            "extern", "fn", "for", "if", "impl", "in", "let", "loop", "match", "mod", "move",
            "mut", "pub", "ref", "return", "static", "struct", "super", "trait", "type", "union",
            "unsafe", "use", "where", "while", "yield",
        ],
        constants: &["true", "false", "self", "Self", "None", "Some", "Ok", "Err"],
        types: &[
            "bool", "char", "f32", "f64", "i8", "i16", "i32", "i64", "i128", "isize", "str", "u8",
            "u16", "u32", "u64", "u128", "usize",
        ],
        traits: CODE
            .and(Traits::RUST)
            .and(Traits::NESTED)
            .and(Traits::PREFIXES),
        ..BASE
    },
    Language {
        names: &["python", "py", "pyi", "python3", "starlark", "bzl"],
        line_comments: &["#"],
        block_comment: None,
        strings: &[TRIPLE, TRIPLE_SINGLE, DOUBLE, SINGLE],
        keywords: &[
            "and", "as", "assert", "async", "await", "break", "case", "class", "continue", "def",
            "del", "elif", "else", "except", "finally", "for", "from", "global", "if", "import",
            "in", "is", "lambda", "match", "nonlocal", "not", "or", "pass", "raise", "return",
            "try", "type", "while", "with", "yield",
        ],
        constants: &["True", "False", "None", "self", "cls", "Ellipsis", "NotImplemented"],
        types: &[
            "bool", "bytes", "dict", "float", "frozenset", "int", "list", "object", "set", "str", "tuple",
        ],
        traits: CODE.and(Traits::ANNOTATIONS).and(Traits::PREFIXES),
        ..BASE
    },
    Language {
        names: &["javascript", "js", "jsx", "mjs", "cjs", "typescript", "ts", "tsx", "mts", "cts", "node"],
        strings: &[DOUBLE, SINGLE, TICK],
        keywords: &[
            "abstract", "as", "async", "await", "break", "case", "catch", "class", "const", "continue",
            "debugger", "declare", "default", "delete", "do", "else", "enum", "export", "extends", "finally",
            "for", "from", "function", "get", "if", "implements", "import", "in", "infer", "instanceof",
            "interface", "is", "keyof", "let", "namespace", "new", "of", "private", "protected", "public",
            "readonly", "return", "satisfies", "set", "static", "super", "switch", "throw", "try", "type",
            "typeof", "var", "void", "while", "with", "yield",
        ],
        constants: &["true", "false", "null", "undefined", "this", "NaN", "Infinity"],
        types: &[
            "any", "bigint", "boolean", "never", "number", "object", "string", "symbol", "unknown",
        ],
        traits: CODE.and(Traits::ANNOTATIONS),
        ..BASE
    },
    Language {
        names: &["json", "jsonc", "json5", "jsonl", "ndjson", "geojson"],
        strings: &[DOUBLE],
        keys: Keys::Strings,
        traits: Traits::NONE,
        ..BASE
    },
    Language {
        names: &["go", "golang"],
        strings: &[DOUBLE, SINGLE, TICK_RAW],
        keywords: &[
            "break", "case", "chan", "const", "continue", "default", "defer", "else", "fallthrough", "for",
            "func", "go", "goto", "if", "import", "interface", "map", "package", "range", "return", "select",
            "struct", "switch", "type", "var",
        ],
        constants: &["true", "false", "nil", "iota"],
        types: &[
            "any", "bool", "byte", "comparable", "complex64", "complex128", "error", "float32", "float64",
            "int", "int8", "int16", "int32", "int64", "rune", "string", "uint", "uint8", "uint16", "uint32",
            "uint64", "uintptr",
        ],
        ..BASE
    },
    Language {
        names: &[
            "java", "kotlin", "kt", "kts", "scala", "groovy", "gradle", "dart",
        ],
        strings: &[TRIPLE, DOUBLE, SINGLE],
        keywords: &[
            "abstract", "as", "assert", "async", "await", "break", "by", "case", "catch", "class", "companion",
            "const", "continue", "data", "def", "default", "do", "else", "enum", "export", "extends",
            "extension", "factory", "final", "finally", "for", "fun", "given", "goto", "if", "implements",
            "implicit", "import", "in", "init", "inline", "instanceof", "interface", "internal", "is", "late",
            "lateinit", "lazy", "match", "mixin", "native", "new", "object", "open", "operator", "override",
            "package", "permits", "private", "protected", "public", "record", "required", "return", "sealed",
            "static", "strictfp", "super", "suspend", "switch", "synchronized", "throw", "throws", "trait",
            "transient", "try", "type", "typealias", "val", "var", "volatile", "when", "where", "while",
            "with", "yield",
        ],
        constants: &["true", "false", "null", "this", "it"],
        types: &[
            "boolean", "byte", "char", "double", "dynamic", "float", "int", "long", "short", "void",
        ],
        traits: CODE.and(Traits::ANNOTATIONS),
        ..BASE
    },
    Language {
        names: &[
            "c", "h", "cpp", "c++", "cc", "cxx", "hpp", "hh", "hxx", "ino", "cu", "cuda", "objc",
            "m", "mm", "glsl", "hlsl", "wgsl",
        ],
        strings: &[DOUBLE, SINGLE],
        keywords: &[
            "alignas", "alignof", "asm", "auto", "break", "case", "catch", "class", "co_await", "co_return",
            "co_yield", "concept", "const", "consteval", "constexpr", "constinit", "const_cast", "continue",
            "decltype", "default", "delete", "do", "dynamic_cast", "else", "enum", "explicit", "export",
            "extern", "final", "for", "friend", "goto", "if", "inline", "mutable", "namespace", "new",
            "noexcept", "operator", "override", "private", "protected", "public", "register",
            "reinterpret_cast", "requires", "restrict", "return", "sizeof", "static", "static_assert",
            "static_cast", "struct", "switch", "template", "thread_local", "throw", "try", "typedef", "typeid",
            "typename", "union", "using", "virtual", "volatile", "while",
        ],
        constants: &["true", "false", "NULL", "nullptr", "this"],
        types: &[
            "bool", "char", "char16_t", "char32_t", "double", "float", "int", "int8_t", "int16_t", "int32_t",
            "int64_t", "long", "ptrdiff_t", "short", "signed", "size_t", "ssize_t", "uint8_t", "uint16_t",
            "uint32_t", "uint64_t", "uintptr_t", "unsigned", "void", "wchar_t",
        ],
        traits: CODE.and(Traits::DIRECTIVES),
        ..BASE
    },
    Language {
        names: &["csharp", "c#", "cs", "fsharp"],
        strings: &[
            TRIPLE,
            quote("@\"", "\"", false, true),
            quote("$\"", "\"", true, false),
            DOUBLE,
            SINGLE,
        ],
        keywords: &[
            "abstract", "as", "async", "await", "base", "break", "case", "catch", "checked", "class", "const",
            "continue", "default", "delegate", "do", "else", "enum", "event", "explicit", "extern", "finally",
            "fixed", "for", "foreach", "get", "goto", "if", "implicit", "in", "init", "interface", "internal",
            "is", "let", "lock", "match", "namespace", "new", "operator", "out", "override", "params",
            "partial", "private", "protected", "public", "readonly", "record", "ref", "required", "return",
            "sealed", "set", "sizeof", "stackalloc", "static", "struct", "switch", "throw", "try", "typeof",
            "unchecked", "unsafe", "using", "var", "virtual", "volatile", "when", "where", "while", "with",
            "yield",
        ],
        constants: &["true", "false", "null", "this"],
        types: &[
            "bool", "byte", "char", "decimal", "double", "dynamic", "float", "int", "long", "nint",
            "nuint", "object", "sbyte", "short", "string", "uint", "ulong", "ushort", "void",
        ],
        traits: CODE.and(Traits::DIRECTIVES),
        ..BASE
    },
    Language {
        names: &["swift"],
        strings: &[TRIPLE, DOUBLE],
        keywords: &[
            "actor", "any", "as", "associatedtype", "async", "await", "break", "case", "catch", "class",
            "continue", "convenience", "default", "defer", "deinit", "didSet", "do", "else", "enum",
            "extension", "fallthrough", "fileprivate", "final", "for", "func", "get", "guard", "if", "import",
            "in", "indirect", "init", "inout", "internal", "is", "isolated", "lazy", "let", "mutating",
            "nonisolated", "open", "operator", "override", "private", "protocol", "public", "repeat",
            "required", "rethrows", "return", "set", "some", "static", "struct", "subscript", "super",
            "switch", "throw", "throws", "try", "typealias", "unowned", "var", "weak", "where", "while",
            "willSet",
        ],
        constants: &["true", "false", "nil", "self", "Self"],
        traits: CODE
            .and(Traits::ANNOTATIONS)
            .and(Traits::NESTED)
            .and(Traits::DIRECTIVES),
        ..BASE
    },
    Language {
        names: &[
            "ruby", "rb", "rake", "gemspec", "gemfile", "rakefile", "crystal", "cr",
        ],
        line_comments: &["#"],
        block_comment: Some(("=begin", "=end")),
        strings: &[DOUBLE_LONG, SINGLE, TICK],
        keywords: &[
            "alias", "and", "attr_accessor", "attr_reader", "attr_writer", "begin", "break", "case", "class",
            "def", "do", "else", "elsif", "end", "ensure", "extend", "for", "if", "in", "include", "module",
            "next", "not", "or", "private", "protected", "public", "raise", "redo", "require",
            "require_relative", "rescue", "retry", "return", "super", "then", "undef", "unless", "until",
            "when", "while", "yield",
        ],
        constants: &["true", "false", "nil", "self", "__FILE__", "__LINE__"],
        ..BASE
    },
    Language {
        names: &["php", "php8"],
        line_comments: &["//", "# "],
        strings: &[DOUBLE_LONG, SINGLE],
        keywords: &[
            "abstract", "and", "as", "break", "case", "catch", "class", "clone", "const", "continue",
            "declare", "default", "do", "echo", "else", "elseif", "enum", "extends", "final", "finally", "fn",
            "for", "foreach", "function", "global", "if", "implements", "include", "instanceof", "interface",
            "match", "namespace", "new", "or", "print", "private", "protected", "public", "readonly",
            "require", "require_once", "return", "static", "switch", "throw", "trait", "try", "use", "var",
            "while", "xor", "yield",
        ],
        constants: &[
            "true", "false", "null", "TRUE", "FALSE", "NULL", "self", "parent",
        ],
        types: &[
            "array", "bool", "callable", "float", "int", "iterable", "mixed", "object", "string",
            "void",
        ],
        traits: CODE.and(Traits::DOLLAR),
        ..BASE
    },
    Language {
        names: &[
            "bash", "sh", "zsh", "shell", "shellscript", "shell-session", "ksh", "fish", "bashrc", "zshrc",
            "profile", "env", "dotenv",
        ],
        line_comments: &["#"],
        block_comment: None,
        strings: &[DOUBLE_LONG, SINGLE_RAW, TICK],
        keywords: &[
            "begin", "break", "case", "continue", "declare", "do", "done", "elif", "else", "end",
            "esac", "exec", "exit", "export", "fi", "for", "function", "if", "in", "local",
            "readonly", "return", "select", "set", "shift", "source", "then", "trap", "typeset",
            "unset", "until", "while",
        ],
        constants: &["true", "false"],
        keys: Keys::First('='),
        traits: Traits::DOLLAR
            .and(Traits::SPACED_COMMENTS)
            .and(Traits::DASHES),
        ..BASE
    },
    Language {
        names: &["powershell", "ps1", "pwsh", "psm1"],
        line_comments: &["#"],
        block_comment: Some(("<#", "#>")),
        strings: &[DOUBLE_LONG, SINGLE_RAW],
        keywords: &[
            "begin", "break", "catch", "class", "continue", "data", "do", "dynamicparam", "else", "elseif",
            "end", "enum", "exit", "filter", "finally", "for", "foreach", "from", "function", "if", "in",
            "param", "process", "return", "switch", "throw", "trap", "try", "until", "using", "while",
        ],
        traits: Traits::DOLLAR.and(Traits::ANY_CASE).and(Traits::DASHES),
        ..BASE
    },
    Language {
        names: &[
            "toml", "ini", "cfg", "conf", "properties", "editorconfig", "gitconfig", "cargo.lock", "service",
            "desktop",
        ],
        line_comments: &["#", ";"],
        block_comment: None,
        strings: &[
            TRIPLE,
            quote("'''", "'''", false, true),
            DOUBLE,
            quote("'", "'", false, false),
        ],
        keys: Keys::First('='),
        traits: Traits::SECTIONS.and(Traits::DASHES),
        ..BASE
    },
    Language {
        names: &["yaml", "yml"],
        line_comments: &["#"],
        block_comment: None,
        strings: &[DOUBLE_LONG, SINGLE_RAW],
        constants: &["true", "false", "null", "yes", "no", "on", "off"],
        keys: Keys::First(':'),
        traits: Traits::SPACED_COMMENTS.and(Traits::DASHES),
        ..BASE
    },
    Language {
        names: &["css", "scss", "sass", "less"],
        line_comments: &["//"],
        keywords: &[
            "important", "media", "import", "keyframes", "supports", "font-face", "include", "mixin", "extend",
            "use",
        ],
        constants: &["auto", "none", "inherit", "initial", "unset", "transparent"],
        keys: Keys::Properties,
        traits: Traits::DASHES.and(Traits::CALLS).and(Traits::ANNOTATIONS),
        ..BASE
    },
    Language {
        names: &["sql", "mysql", "postgres", "postgresql", "sqlite", "plsql", "psql"],
        line_comments: &["--"],
        strings: &[
            quote("'", "'", false, true),
            quote("\"", "\"", false, false),
            quote("`", "`", false, false),
        ],
        keywords: &[
            "add", "all", "alter", "and", "as", "asc", "begin", "between", "by", "cascade", "case", "check",
            "column", "commit", "constraint", "create", "cross", "database", "default", "delete", "desc",
            "distinct", "drop", "else", "end", "exists", "explain", "foreign", "from", "full", "grant",
            "group", "having", "if", "in", "index", "inner", "insert", "into", "is", "join", "key", "left",
            "like", "limit", "not", "offset", "on", "or", "order", "outer", "partition", "pragma", "primary",
            "references", "replace", "returning", "right", "rollback", "select", "set", "table", "temporary",
            "then", "to", "transaction", "trigger", "union", "unique", "update", "using", "values", "view",
            "when", "where", "window", "with",
        ],
        constants: &["true", "false", "null"],
        types: &[
            "bigint", "blob", "boolean", "bytea", "char", "date", "decimal", "double", "float", "int",
            "integer", "json", "jsonb", "numeric", "real", "serial", "smallint", "text", "time", "timestamp",
            "timestamptz", "uuid", "varchar",
        ],
        traits: Traits::ANY_CASE.and(Traits::CALLS),
        ..BASE
    },
    Language {
        names: &["lua", "luau"],
        line_comments: &["--"],
        block_comment: Some(("--[[", "]]")),
        strings: &[DOUBLE, SINGLE, quote("[[", "]]", false, true)],
        keywords: &[
            "and", "break", "do", "else", "elseif", "end", "for", "function", "goto", "if", "in",
            "local", "not", "or", "repeat", "return", "then", "until", "while",
        ],
        constants: &["true", "false", "nil", "self"],
        ..BASE
    },
    Language {
        names: &["zig"],
        block_comment: None,
        keywords: &[
            "align", "and", "anyframe", "anytype", "asm", "async", "await", "break", "catch", "comptime",
            "const", "continue", "defer", "else", "enum", "errdefer", "error", "export", "extern", "fn", "for",
            "if", "inline", "noalias", "opaque", "or", "orelse", "packed", "pub", "resume", "return", "struct",
            "suspend", "switch", "test", "threadlocal", "try", "union", "unreachable", "usingnamespace", "var",
            "volatile", "while",
        ],
        constants: &["true", "false", "null", "undefined"],
        types: &[
            "bool", "f32", "f64", "i8", "i16", "i32", "i64", "isize", "type", "u8", "u16", "u32",
            "u64", "usize", "void",
        ],
        traits: CODE.and(Traits::ANNOTATIONS),
        ..BASE
    },
    Language {
        names: &["haskell", "hs", "elm", "purescript", "ocaml", "ml", "mli", "reason"],
        line_comments: &["--"],
        block_comment: Some(("{-", "-}")),
        strings: &[DOUBLE],
        keywords: &[
            "and", "as", "begin", "case", "class", "data", "deriving", "do", "done", "else", "end",
            "exception", "exposing", "for", "foreign", "fun", "function", "functor", "if", "import", "in",
            "include", "infix", "infixl", "infixr", "instance", "let", "match", "module", "mutable", "newtype",
            "of", "open", "port", "qualified", "rec", "sig", "struct", "then", "to", "try", "type", "val",
            "when", "where", "while", "with",
        ],
        constants: &["True", "False", "true", "false"],
        traits: Traits::CAPITALS.and(Traits::NESTED),
        ..BASE
    },
    Language {
        names: &["elixir", "ex", "exs", "erlang", "erl", "hrl"],
        line_comments: &["#", "%"],
        block_comment: None,
        strings: &[TRIPLE, DOUBLE_LONG, SINGLE],
        keywords: &[
            "after", "alias", "and", "case", "catch", "cond", "def", "defimpl", "defmacro", "defmodule",
            "defp", "defprotocol", "defstruct", "do", "else", "end", "fn", "for", "if", "import", "in", "not",
            "of", "or", "quote", "raise", "receive", "require", "rescue", "try", "unless", "unquote", "use",
            "when", "with",
        ],
        constants: &["true", "false", "nil"],
        traits: CODE.and(Traits::ANNOTATIONS),
        ..BASE
    },
    Language {
        names: &["dockerfile", "containerfile", "docker"],
        line_comments: &["#"],
        block_comment: None,
        keywords: &[
            "ADD", "ARG", "AS", "CMD", "COPY", "ENTRYPOINT", "ENV", "EXPOSE", "FROM", "HEALTHCHECK", "LABEL",
            "ONBUILD", "RUN", "SHELL", "STOPSIGNAL", "USER", "VOLUME", "WORKDIR",
        ],
        traits: Traits::DOLLAR
            .and(Traits::SPACED_COMMENTS)
            .and(Traits::DASHES),
        ..BASE
    },
    Language {
        names: &["makefile", "make", "mk", "gnumakefile", "justfile", "just"],
        line_comments: &["#"],
        block_comment: None,
        keywords: &[
            "define", "else", "endef", "endif", "export", "ifdef", "ifeq", "ifndef", "ifneq",
            "include", "override", "vpath",
        ],
        keys: Keys::First(':'),
        traits: Traits::DOLLAR
            .and(Traits::SPACED_COMMENTS)
            .and(Traits::DASHES),
        ..BASE
    },
    Language {
        names: &["hcl", "terraform", "tf", "tfvars", "nix", "cmake", "bicep"],
        line_comments: &["#", "//"],
        strings: &[quote("''", "''", false, true), DOUBLE_LONG],
        keywords: &[
            "assert", "data", "dynamic", "else", "endif", "for", "function", "if", "in", "inherit", "let",
            "locals", "module", "output", "provider", "rec", "resource", "terraform", "then", "variable",
            "with",
        ],
        keys: Keys::First('='),
        traits: Traits::CALLS.and(Traits::DASHES).and(Traits::DOLLAR),
        ..BASE
    },
    Language {
        names: &[
            "protobuf", "proto", "graphql", "gql", "thrift", "capnp", "prisma", "solidity", "sol",
        ],
        line_comments: &["//", "#"],
        keywords: &[
            "address", "contract", "directive", "enum", "event", "extend", "external", "fragment", "function",
            "import", "input", "interface", "map", "mapping", "message", "modifier", "mutation", "model", "on",
            "oneof", "option", "optional", "package", "payable", "pragma", "public", "query", "repeated",
            "required", "reserved", "return", "returns", "rpc", "scalar", "schema", "service", "struct",
            "subscription", "syntax", "type", "union", "using", "view",
        ],
        types: &[
            "bool", "bytes", "double", "fixed32", "fixed64", "float", "int32", "int64", "string",
            "uint32", "uint64", "uint256",
        ],
        traits: CODE.and(Traits::ANNOTATIONS),
        ..BASE
    },
    Language {
        names: &["r", "julia", "jl", "perl", "pl", "pm", "matlab", "octave"],
        line_comments: &["#"],
        block_comment: None,
        strings: &[TRIPLE, DOUBLE_LONG, SINGLE],
        keywords: &[
            "abstract", "begin", "break", "catch", "const", "continue", "do", "else", "elseif",
            "elsif", "end", "export", "finally", "for", "foreach", "function", "global", "if",
            "import", "in", "last", "let", "library", "local", "macro", "module", "my", "next",
            "our", "package", "print", "quote", "repeat", "require", "return", "struct", "sub",
            "try", "unless", "until", "use", "using", "where", "while",
        ],
        constants: &[
            "TRUE", "FALSE", "NULL", "NA", "true", "false", "nothing", "undef", "Inf", "NaN",
        ],
        traits: CODE.and(Traits::DOLLAR),
        ..BASE
    },
];
