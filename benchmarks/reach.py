"""Code that is reached from no command, page, route or public name, found by reading it.

A definition is a function, a class, a method, or a name that a module assigns. Reached are: the
command line, every handler that a decorator of click or Litestar makes, the public names of
`observant` and of the modules that the reference offers, and what these name in turn. `x.name`
reaches every method `name` of a class that is reached; so does the word `name` in a template or in
a text of reached code. What is listed is therefore surely unused inside; what is not listed may
still be. Tests and examples of pages are no users.
"""

import ast
import itertools
import re
from collections import defaultdict

WORD = re.compile(r"[A-Za-z_]\w*")
FRONT = ("observant", "observant.scrapy", "observant.testing")
REFERENCE = re.compile(r'^        "(observant[\w.]*)": "', re.MULTILINE)
"""The modules of the reference (docs/reference_names.py): what they offer is public."""
HANDLERS = {"command", "group", "get", "post", "put", "patch", "delete", "route", "websocket"}
FUNCTIONS = (ast.FunctionDef, ast.AsyncFunctionDef)


class Definition:
    """A named piece of a module: what it mentions, and for a class its methods."""

    def __init__(self, module, name, node, owner=None):
        self.module, self.name, self.node, self.owner = module, name, node, owner
        self.methods = {}
        bodies = [node]
        if isinstance(node, ast.ClassDef):
            inner = [item for item in node.body if isinstance(item, FUNCTIONS)]
            bodies = [*node.bases, *node.keywords, *node.decorator_list]
            bodies += [item for item in node.body if not isinstance(item, FUNCTIONS)]
            for item in inner:
                self.methods.setdefault(item.name, []).append(
                    Definition(module, item.name, item, self)
                )
        self.names, self.attributes, self.words = mentions(bodies)

    @property
    def lines(self):
        decorators = getattr(self.node, "decorator_list", [])
        first = min([self.node.lineno, *(d.lineno for d in decorators)])
        return self.node.end_lineno - first + 1

    @property
    def is_handler(self):
        for decorator in getattr(self.node, "decorator_list", []):
            called = decorator.func if isinstance(decorator, ast.Call) else decorator
            name = getattr(called, "attr", getattr(called, "id", ""))
            if name in HANDLERS:
                return True
        return False

    def __str__(self):
        return f"{self.module}: {f'{self.owner.name}.' if self.owner else ''}{self.name}"


def mentions(nodes):
    """Names, attributes and words of texts in these nodes."""
    names, attributes, words = set(), set(), set()
    for root in nodes:
        for node in ast.walk(root):
            if isinstance(node, ast.Name):
                names.add(node.id)
            elif isinstance(node, ast.Attribute):
                attributes.add(node.attr)
            elif isinstance(node, ast.Import | ast.ImportFrom):
                words.update(f"{getattr(node, 'module', '')}.{alias.name}" for alias in node.names)
            elif isinstance(node, ast.Constant) and isinstance(node.value, str):
                if len(node.value) < 200:
                    words.update(re.findall(r"[\w.]+", node.value.replace(":", ".")))
            elif isinstance(node, ast.keyword) and node.arg:
                attributes.add(node.arg)
            elif isinstance(node, ast.MatchClass):
                attributes.update(node.kwd_attrs)
    return names, attributes, words


class Module:
    """The definitions of a module, its imports, and the statements that run when it is loaded."""

    def __init__(self, name, text):
        self.name = name
        tree = ast.parse(text)
        self.definitions, self.imports, self.rest = {}, {}, []
        self.loads = [name for node in tree.body for name in modules_of(node)]
        self.finds_parts = "import_module(f" in text
        self.exported = set()
        for node in tree.body:
            self._take(node)
        for node in ast.walk(tree):
            if isinstance(node, ast.ImportFrom) and node.module and node.level == 0:
                for alias in node.names:
                    self.imports[alias.asname or alias.name] = (node.module, alias.name)
            elif isinstance(node, ast.Import):
                for alias in node.names:
                    self.imports[alias.asname or alias.name] = (alias.name, None)
        self.rest_names, self.rest_attributes, self.rest_words = mentions(self.rest)

    def _take(self, node):
        if isinstance(node, (*FUNCTIONS, ast.ClassDef)):
            self.definitions[node.name] = Definition(self.name, node.name, node)
        elif isinstance(node, ast.Assign | ast.AnnAssign):
            targets = node.targets if isinstance(node, ast.Assign) else [node.target]
            names = [t.id for target in targets for t in ast.walk(target) if is_stored(t)]
            if "__all__" in names:
                self.exported = set(re.findall(r"'(\w+)'", ast.unparse(node.value)))
            elif names:
                for name in names:
                    self.definitions[name] = Definition(self.name, name, node)
            else:
                self.rest.append(node)
        elif isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant):
            pass
        elif not isinstance(node, ast.Import | ast.ImportFrom):
            if isinstance(node, ast.If) and "TYPE_CHECKING" in ast.unparse(node.test):
                return
            self.rest.append(node)


def modules_of(node):
    """The modules that an import may load."""
    if isinstance(node, ast.ImportFrom):
        return [node.module, *(f"{node.module}.{alias.name}" for alias in node.names)]
    return [alias.name for alias in node.names] if isinstance(node, ast.Import) else []


def is_stored(node):
    return isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store)


def unreached(root):
    """Functions, classes and methods of a package, given by its folder, that nothing reaches."""
    modules = {}
    for file in sorted(root.rglob("*.py")):
        parts = file.relative_to(root.parent).with_suffix("").parts
        name = ".".join(parts[:-1] if parts[-1] == "__init__" else parts)
        modules[name] = Module(name, file.read_text("utf-8"))
    templates = "\n".join(
        file.read_text("utf-8")
        for kind in ("html", "js", "txt", "sql")
        for file in root.rglob(f"*.{kind}")
    )
    listed = root.parents[1] / "docs" / "reference_names.py"
    front = REFERENCE.findall(listed.read_text("utf-8")) if listed.exists() else []
    walk = Walk(modules, set(WORD.findall(templates)), (*FRONT, *front))
    walk.run()
    found = []
    for module in modules.values():
        for definition in dict.fromkeys(module.definitions.values()):
            if isinstance(definition.node, ast.Assign | ast.AnnAssign):
                continue
            if definition not in walk.reached:
                found.append(definition)
            else:
                found += [
                    method
                    for methods in definition.methods.values()
                    for method in methods
                    if method not in walk.reached
                ]
    return found


class Walk:
    """Follows mentions from the roots until nothing new is found."""

    def __init__(self, modules, words, front):
        self.front = front
        self.modules, self.words = modules, {*words, "collect"}  # Prometheus calls it
        self.reached, self.loaded, self.queue = set(), set(), []
        self.waiting = defaultdict(list)
        """Methods of reached classes that nobody has mentioned yet, by name."""

    def run(self):
        for name in self.front:
            if name in self.modules:
                self.load(self.modules[name])
                for exported in self.modules[name].exported:
                    self.resolve(name, exported)
                for definition in list(self.reached):  # whose methods are public names too
                    self.reach_methods(definition)
                if name in FRONT[1:]:
                    for definition in self.modules[name].definitions.values():
                        self.reach(definition)
        self.resolve("observant.cli", "main")
        for module in self.modules.values():
            for definition in module.definitions.values():
                if definition.is_handler:
                    self.reach(definition)
        while self.queue:
            self.follow(self.queue.pop())

    def reach_methods(self, definition):
        """Public methods, also of the classes that one is made from."""
        for method in itertools.chain(*definition.methods.values()):
            if not method.name.startswith("_") or method.name == "_repr_html_":
                self.reach(method)
        for base in getattr(definition.node, "bases", []):
            home, name = definition.module, ast.unparse(base).partition("[")[0]
            while home in self.modules and name in self.modules[home].imports:
                home, name = self.modules[home].imports[name]
            found = self.modules[home].definitions.get(name) if home in self.modules else None
            if found is not None:
                self.reach_methods(found)

    def load(self, module):
        if module in self.loaded:
            return
        self.loaded.add(module)
        for name in module.loads:
            if name in self.modules:
                self.load(self.modules[name])
        for name in ("__getattr__", "__dir__", "IMPORTERS"):
            if name in module.definitions:
                self.reach(module.definitions[name])
        for definition in module.definitions.values():
            if self.is_registered(definition):
                self.reach(definition)
        if module.finds_parts:
            for name in [n for n in self.modules if n.startswith(f"{module.name}.")]:
                self.load(self.modules[name])
                for definition in self.modules[name].definitions.values():
                    if definition.name in self.words:
                        self.reach(definition)
                    else:
                        self.waiting[definition.name].append(definition)
        self.mention(module.name, module.rest_names, module.rest_attributes, module.rest_words)

    def reach(self, definition):
        if definition in self.reached:
            return
        self.reached.add(definition)
        self.load(self.modules[definition.module])
        self.queue.append(definition)

    def follow(self, definition):
        self.mention(definition.module, definition.names, definition.attributes, definition.words)
        foreign = isinstance(definition.node, ast.ClassDef) and any(
            self.is_foreign(definition.module, base) for base in definition.node.bases
        )
        foreign |= definition.module.startswith("observant.scrapy.")  # Scrapy calls by name
        for name, methods in definition.methods.items():
            for method in methods:
                special = name.startswith("__") or foreign or method.is_handler
                if special or name in self.words:
                    self.reach(method)
                else:
                    self.waiting[name].append(method)

    def is_foreign(self, module, base):
        """Whether a base class is somebody else's, who may call any method."""
        name = ast.unparse(base).partition("[")[0].partition(".")[0]
        if name in {"NamedTuple", "Protocol", "ABC", "Generic", "Enum", "StrEnum", "Exception"}:
            return False
        home, inner = self.modules[module].imports.get(name, (module, name))
        if name not in self.modules[module].definitions and home == module:
            return True
        if home in self.modules:
            found = self.modules[home].definitions.get(inner)
            bases = getattr(found and found.node, "bases", [])
            return any(self.is_foreign(home, base) for base in bases)
        return not home.startswith(("observant", "msgspec", "typing"))

    def is_registered(self, definition):
        """Whether a decorator with arguments hands it to somebody, and is no compiler's."""
        decorators = getattr(definition.node, "decorator_list", [])
        called = [ast.unparse(d.func) for d in decorators if isinstance(d, ast.Call)]
        return any("." in name and name.split(".")[0][0].isupper() for name in called)

    def mention(self, module, names, attributes, words):
        for name in names:
            self.resolve(module, name)
        for word in words:
            if word.startswith("observant."):
                self.whole(word)
        for word in attributes | {w for text in words for w in text.split(".")}:
            if word not in self.words:
                self.words.add(word)
                for method in self.waiting.pop(word, ()):
                    self.reach(method)
        for name in attributes:  # of a module: module.name
            for target in self.modules[module].imports.values():
                inner = f"{target[0]}.{target[1]}" if target[1] else target[0]
                if inner in self.modules and name in self.modules[inner].definitions:
                    self.reach(self.modules[inner].definitions[name])

    def whole(self, text):
        """A module, or a name of one, that is loaded by its name in a text."""
        if text in self.modules:
            self.load(self.modules[text])
            return
        home, _, name = text.rpartition(".")
        if home in self.modules:
            self.resolve(home, name)

    def resolve(self, module, name, depth=0):
        """Reach what `name` stands for in a module, through any chain of imports."""
        if module not in self.modules or depth > 9:
            return
        found = self.modules[module]
        if name in found.definitions:
            self.reach(found.definitions[name])
        elif name in found.imports:
            home, inner = found.imports[name]
            self.load(found)
            if inner is None or f"{home}.{inner}" in self.modules:
                target = self.modules.get(home if inner is None else f"{home}.{inner}")
                if target is not None:
                    self.load(target)
            else:
                self.resolve(home, inner, depth + 1)
