//! Reads what a source file says about modules: which it declares, and what it defines, imports and names.

use crate::tidy::text::code_only;

/// The segments of a path as written, without `::`.
pub type Path = Vec<String>;

/// One module: a file, or an inline `mod name { … }`.
#[derive(Debug, Default)]
pub struct Module {
    /// `mod name;`, with its line, and whether it is for tests only.
    pub declared: Vec<(String, usize, bool)>,
    /// `mod name { … }`.
    pub inline: Vec<(String, Module)>,
    /// Names of items.
    pub defined: Vec<String>,
    /// Macros with `#[macro_export]`.
    pub exported: Vec<String>,
    /// `use path as name`.
    pub imported: Vec<(String, Path)>,
    /// `use path::*`.
    pub globs: Vec<Path>,
    /// Every path of more than one segment or in a `use`, with its line.
    pub named: Vec<(Path, usize)>,
}

impl Module {
    /// Reads a file.
    pub fn parse(source: &str) -> Self {
        let code = code_only(source);
        let tokens = tokens(&code);
        let mut module = Self::default();
        Reader { tokens: &tokens, at: 0 }.read(&mut module);
        module
    }
}

#[derive(Clone, Copy, Debug)]
struct Token<'a> {
    text: &'a str,
    line: usize,
}

fn is_name(text: &str) -> bool {
    text.starts_with(|c: char| c.is_ascii_alphabetic() || c == '_')
}

/// The tokens of `code`: names and numbers, `::`, and single characters.
fn tokens(code: &str) -> Vec<Token<'_>> {
    let mut tokens = Vec::new();
    for (index, mut rest) in code.lines().enumerate() {
        loop {
            rest = rest.trim_start();
            let Some(first) = rest.chars().next() else { break };
            let word = rest.find(|c: char| !c.is_ascii_alphanumeric() && c != '_').unwrap_or(rest.len());
            let length = match word {
                0 if rest.starts_with("::") => 2,
                0 => first.len_utf8(),
                word => word,
            };
            tokens.push(Token { text: &rest[..length], line: index + 1 });
            rest = &rest[length..];
        }
    }
    tokens
}

/// The words that begin items and statements which may have commas in them.
const ITEMS: [&str; 15] = [
    "async", "const", "enum", "extern", "fn", "impl", "let", "mod", "static", "struct", "trait", "type", "union",
    "unsafe", "use",
];

struct Reader<'a> {
    tokens: &'a [Token<'a>],
    at: usize,
}

impl<'a> Reader<'a> {
    fn text(&self, ahead: usize) -> &'a str {
        self.tokens.get(self.at + ahead).map_or("", |token| token.text)
    }

    fn line(&self) -> usize {
        self.tokens.get(self.at).map_or(0, |token| token.line)
    }

    /// The index behind the bracket that closes the one at `from`.
    fn closed(&self, from: usize) -> usize {
        let mut depth = 0usize;
        for (index, token) in self.tokens.iter().enumerate().skip(from) {
            match token.text {
                "(" | "[" | "{" => depth += 1,
                ")" | "]" | "}" => depth = depth.saturating_sub(1),
                _ => continue,
            }
            if depth == 0 {
                return index + 1;
            }
        }
        self.tokens.len()
    }

    /// Reads a module to its end.
    fn read(mut self, module: &mut Module) {
        let (mut depth, mut for_tests, mut exported) = (0usize, false, false);
        while self.at < self.tokens.len() {
            match self.text(0) {
                "#" => {
                    let open = self.at + if self.text(1) == "!" { 2 } else { 1 };
                    let end = self.closed(open);
                    let attribute: String = self.tokens[open..end].iter().map(|token| token.text).collect();
                    for_tests |= attribute == "[cfg(test)]";
                    exported |= attribute == "[macro_export]";
                    self.at = end;
                    continue;
                }
                "mod" if is_name(self.text(1)) && self.text(2) == ";" => {
                    module.declared.push((self.text(1).to_owned(), self.line(), for_tests));
                    self.at += 3;
                }
                _ if for_tests => self.skip_item(),
                "mod" if is_name(self.text(1)) && self.text(2) == "{" => self.inline(module),
                "use" => self.import(module),
                "macro_rules" => {
                    let list = if exported { &mut module.exported } else { &mut module.defined };
                    list.push(self.text(2).to_owned());
                    self.at += 3;
                }
                "struct" | "enum" | "union" | "trait" | "type" | "fn" | "const" | "static" if depth == 0 => {
                    module.defined.push(self.text(1).to_owned());
                    self.at += 1;
                }
                "{" => (depth, self.at) = (depth + 1, self.at + 1),
                "}" => (depth, self.at) = (depth.saturating_sub(1), self.at + 1),
                text if is_name(text) && self.text(1) == "::" => self.path(module),
                // Behind an attribute an item begins with its visibility.
                "pub" if self.text(1) == "(" => {
                    self.at = self.closed(self.at + 1);
                    continue;
                }
                "pub" => {
                    self.at += 1;
                    continue;
                }
                _ => self.at += 1,
            }
            (for_tests, exported) = (false, false);
        }
    }

    /// Skips the item behind an attribute: up to its `;` or the end of its braces, or, if it is a field or the like, to
    /// the next one.
    fn skip_item(&mut self) {
        let is_item = ITEMS.contains(&self.text(0));
        while self.at < self.tokens.len() {
            match self.text(0) {
                "}" => return,
                "," if !is_item => return,
                ";" => {
                    self.at += 1;
                    return;
                }
                "{" => {
                    self.at = self.closed(self.at);
                    return;
                }
                "(" | "[" => self.at = self.closed(self.at),
                _ => self.at += 1,
            }
        }
    }

    fn inline(&mut self, module: &mut Module) {
        let (name, end) = (self.text(1).to_owned(), self.closed(self.at + 2));
        let mut inner = Module::default();
        Reader { tokens: &self.tokens[..end - 1], at: self.at + 3 }.read(&mut inner);
        module.inline.push((name, inner));
        self.at = end;
    }

    fn import(&mut self, module: &mut Module) {
        self.at += 1;
        self.tree(&mut Vec::new(), module);
    }

    /// Reads one branch of the tree of a `use`, below `prefix`.
    fn tree(&mut self, prefix: &mut Path, module: &mut Module) {
        let depth = prefix.len();
        let line = self.line();
        loop {
            match self.text(0) {
                "::" => self.at += 1,
                "{" => {
                    self.at += 1;
                    while !matches!(self.text(0), "}" | "") {
                        match self.text(0) {
                            "::" | "{" | "*" => self.tree(prefix, module),
                            name if is_name(name) => self.tree(prefix, module),
                            _ => self.at += 1,
                        }
                    }
                    self.at += 1;
                    break;
                }
                "*" => {
                    self.at += 1;
                    module.globs.push(prefix.clone());
                    break;
                }
                name if is_name(name) => {
                    if name != "self" || prefix.is_empty() {
                        prefix.push(name.to_owned());
                    }
                    self.at += 1;
                    if self.text(0) == "::" {
                        continue;
                    }
                    let mut name = prefix.last().cloned().unwrap_or_default();
                    if self.text(0) == "as" {
                        name = self.text(1).to_owned();
                        self.at += 2;
                    }
                    module.named.push((prefix.clone(), line));
                    module.imported.push((name, prefix.clone()));
                    break;
                }
                // Not a `use` that compiles.
                _ => break,
            }
        }
        prefix.truncate(depth);
    }

    /// Reads a path in code.
    fn path(&mut self, module: &mut Module) {
        let line = self.line();
        let goes_on = self.at > 0 && matches!(self.tokens[self.at - 1].text, "::" | ".");
        let mut path = vec![self.text(0).to_owned()];
        while self.text(1) == "::" && is_name(self.text(2)) {
            path.push(self.text(2).to_owned());
            self.at += 2;
        }
        self.at += 1;
        if !goes_on {
            module.named.push((path, line));
        }
    }
}
