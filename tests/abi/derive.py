"""Which driver functions can take device memory: read from NVIDIA's header, never from our table.

Four independent witnesses, from prototypes and documentation comments of cuda.h:

  oom     the comment lists CUDA_ERROR_OUT_OF_MEMORY among the results;
  output  the prototype hands back an object that can hold device memory (a device pointer, an array, a
          memory handle, a pool, a context, a module, an instantiated graph...);
  brief   the first line of the comment says that it allocates, maps, imports, loads, launches...;
  words   the rest of the comment says that memory is allocated, populated, migrated or resized.

One witness is enough. Every version of a name (`_v2`, `_ptsz`, no suffix...) follows its documented
form. The list is meant to be too long: what takes nothing is excepted by name and reason.
"""

import re
from dataclasses import dataclass, field

# Objects that hold, or come to hold, device memory. A graph under construction or an event does not.
OUTPUTS = (
    "CUdeviceptr",
    "CUdeviceptr_v1",
    "CUarray",
    "CUmipmappedArray",
    "CUmemGenericAllocationHandle",
    "CUmemoryPool",
    "CUcontext",
    "CUgreenCtx",
    "CUmodule",
    "CUlibrary",
    "CUgraphExec",
    "CUexternalMemory",
    "CUgraphicsResource",
    "CUstream",
    "CUlogicalEndpointId",
    "CUgraphNodeParams",  # its member alloc.dptr is handed back
)

# What the first line says a function does.
BRIEF = re.compile(
    r"\b(?:allocat|bind|import|instantiat|launch|load|map|open|prefetch|register|reserv|restor|retain|upload)\w*",
    re.I,
)

# What the rest of the comment says happens to memory; reading "allocated by" is not such a word.
WORDS = (
    r"\b(?:re)?allocates\b",
    r"\breserves\b",
    r"\bmemory (?:is|are|will be|may be|to be) (?:re)?allocated\b",
    r"\b(?:re)?allocat(?:e|ing) (?:device|local|graph|the memory|memory|physical)\b",
    r"\bpopulat(?:e|es|ed|ing) (?:on|the physical|physical|pages|memory)\b",
    r"\bmigrat(?:e|ed|es) (?:back )?(?:to|pages|data|memory|between)\b(?! ::cu)",
    r"\bresiz(?:e|es|ed|ing)\b",
    r"\bnew (?:physical )?(?:memory|allocation)\b",
)

# Reading a property of something that exists cannot take memory, whatever its comment mentions.
READS = re.compile(r"^cu\w*?(?:Get|Query|Is|Can)[A-Z]\w*$|^cuCoredump|^cuLogs|^cuProfiler|^cuDriver")


@dataclass
class Function:
    """One documented prototype: its name as written, its parameters, comment and the witnesses found."""

    name: str
    params: str
    doc: str
    witnesses: set = field(default_factory=set)


def functions(header_text):
    """Every prototype of the public part of cuda.h together with the comment before it."""
    found = {}
    pattern = re.compile(
        r"(?P<doc>/\*\*(?:[^*]|\*(?!/))*\*/)?\s*(?:#if[^\n]*\n|__CUDA_DEPRECATED\s*)*"
        r"CUresult\s+CUDAAPI\s+(?P<name>cu\w+)\s*\((?P<params>[^;]*)\)\s*;"
    )
    for match in pattern.finditer(header_text):
        function = Function(match["name"], " ".join(match["params"].split()), match["doc"] or "")
        known = found.get(function.name)
        if known is None or (function.doc and not known.doc):
            found[function.name] = function
    return list(found.values())


def _outputs(params):
    """Names of types that a parameter hands back by pointer (one star, not const)."""
    for param in params.split(","):
        match = re.match(r"^(?!const\b)(\w+) ?\*+ ?(\w+)$", param.strip())
        if match and param.count("*") == 1:
            yield match[1]


def _prose(doc):
    """The comment without its lists of results, parameters' cross references and links."""
    return re.split(r"\\(?:return|sa)\b", doc)[0]


def witness(function):
    """Fill and return the set of witnesses of one prototype."""
    if READS.match(function.name):
        return function.witnesses
    if re.search(r"::CUDA_ERROR_OUT_OF_MEMORY", function.doc):
        function.witnesses.add("oom")
    if any(output in OUTPUTS for output in _outputs(function.params)):
        function.witnesses.add("output")
    prose = _prose(function.doc)
    brief = re.search(r"\\brief([^\n]*(?:\n \* \w[^\n]*)?)", function.doc)
    if brief and BRIEF.search(brief[1]):
        function.witnesses.add("brief")
    if any(re.search(word, prose, re.I) for word in WORDS):
        function.witnesses.add("words")
    return function.witnesses


def base_name(symbol):
    """The documented name of a symbol: twin and version suffixes off."""
    symbol = re.sub(r"_pt[sd][sz]$", "", symbol)
    return re.sub(r"_v\d+$", "", symbol)


def renames(header_text):
    """Pairs (name written in a program, symbol it becomes) from the header's renaming macros."""
    return re.findall(
        r"^\s*#define\s+(cu[A-Z]\w+)\s+(?:__CUDA_API_PT[DS][SZ]\()?(cu[A-Z]\w+)\)?\s*$", header_text, re.M
    )


def symbols(header_text):
    """Every symbol the header knows of: prototypes, what macros turn names into, per-thread twins."""
    found = {function.name for function in functions(header_text)}
    found |= {symbol for _, symbol in renames(header_text)}
    for twin, name in re.findall(r"__CUDA_API_PT(DS|SZ)\((cu[A-Z]\w+)\)", header_text):
        found.add(f"{name}_pt{twin.lower()}")
    return found


def derive(header_text, names):
    """Map each of `names` (exports of a driver, names of a header) that can take device memory to its
    witnesses."""
    by_base = {}
    for function in functions(header_text):
        by_base.setdefault(base_name(function.name), set()).update(witness(function))
    for name, documented in renames(header_text):
        by_base.setdefault(base_name(documented), set()).update(by_base.get(base_name(name), ()))
    return {s: sorted(by_base[base_name(s)]) for s in names if by_base.get(base_name(s))}
