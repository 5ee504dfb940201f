# Run by the interpreter that was found: what it is, as one line of JSON.
import json
import os
import sys
import sysconfig

get = sysconfig.get_config_var
major, minor = sys.version_info[:2]
names = [get("INSTSONAME"), get("LDLIBRARY")]
for flags in (getattr(sys, "abiflags", ""), ""):
    for end in (".so.1.0", ".so.1", ".so", ".dylib"):
        names.append("libpython%d.%d%s%s" % (major, minor, flags, end))
base = getattr(sys, "base_prefix", sys.prefix)
folders = [get("LIBDIR"), os.path.join(base, "lib"), get("LIBPL"), get("PYTHONFRAMEWORKPREFIX")]
if get("LIBDIR") and get("MULTIARCH"):
    folders.append(os.path.join(get("LIBDIR"), get("MULTIARCH")))
library = None
for folder in folders:
    for name in names:
        path = os.path.join(folder or "", name or "")
        if folder and name and not name.endswith(".a") and os.path.isfile(path):
            library = library or path
# Of `sys.path`, `.pth` files are a part.
readable = {sys.prefix, base, sys.exec_prefix, *sys.path, *sysconfig.get_paths().values()}
print(json.dumps({
    "implementation": sys.implementation.name,
    "version": [major, minor],
    "executable": sys.executable,
    "prefix": sys.prefix,
    "library": library,
    "readable": sorted(path for path in readable if os.path.isabs(path) and path != os.sep and os.path.exists(path)),
}))
