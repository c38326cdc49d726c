//! Confined processes against files: what is outside, what may only be read, what the project hides.

use crate::{
    attempt::{Group, Outcome, must},
    probe::Probe,
};
use std::{fs, os::unix::fs::MetadataExt};

pub(crate) fn group() -> Group {
    let ro = ("read-only mount", "EROFS");
    let probes = vec![
        Probe::outside("reading a file outside", "return read(CANARY)"),
        Probe::outside("listing a folder outside", "return os.listdir(OUTSIDE)"),
        Probe::outside("changing a file outside", "return each(lambda: write(CANARY), lambda: write(CANARY, how='a'))"),
        Probe::outside(
            "truncating a file outside, by path and by opening",
            "return each(lambda: os.truncate(CANARY, 0), lambda: os.open(CANARY, os.O_RDONLY | os.O_TRUNC))",
        ),
        Probe::outside(
            "making a file, a folder, a link outside",
            "return each(lambda: write(OUTSIDE + '/new'), lambda: os.mkdir(OUTSIDE + '/d'), lambda: os.symlink('/', OUTSIDE + '/l'))",
        ),
        Probe::outside(
            "removing and renaming outside",
            "return each(lambda: os.unlink(OUTSIDE + '/etc/passwd'), lambda: os.rename(CANARY, OUTSIDE + '/x'))",
        ),
        Probe::new(
            "moving a file from outside into a mount, and out of it",
            ("mount namespace", "ENOENT"),
            ("Landlock", "EACCES|EXDEV|EACCES+EXDEV"),
            "return each(lambda: os.rename(CANARY, RW + '/x'), lambda: os.rename(RW + '/mine.txt', OUTSIDE + '/x'))",
        ),
        Probe::new(
            "a hard link to a file outside, made in a mount",
            ("mount namespace", "ENOENT"),
            ("Landlock", "EACCES|EXDEV"),
            "os.link(CANARY, RW + '/mine')\nreturn read(RW + '/mine')",
        ),
        Probe::outside("a symbolic link to outside, made in a mount and followed", "os.symlink(OUTSIDE, RW + '/own')\nreturn read(RW + '/own/canary.txt')")
            .afterwards(|world| Ok(fs::remove_file(world.project("rw/own")).map_err(|error| error.to_string())?)),
        Probe::outside("`/proc/self/root` and `/proc/self/cwd`", "return each(lambda: read('/proc/self/root' + CANARY), lambda: read('/proc/self/cwd' + CANARY))"),
        Probe::new(
            "the root of the first process (`/proc/1/root`)",
            ("process namespace, no capabilities", "EACCES|ENOENT"),
            ("Landlock", "EACCES"),
            "return read(f'/proc/{os.getppid() if FREE else 1}/root{CANARY}')",
        )
        .control_as_root("ok"),
        Probe::new(
            "the folder of another process (`/proc/N/cwd`)",
            ("process namespace", "ENOENT"),
            ("Landlock", "EACCES"),
            "return read(f'/proc/{VICTIM}/cwd/canary.txt')",
        ),
        Probe::new(
            "what another process has open (`/proc/N/fd`)",
            ("process namespace", "ENOENT"),
            ("Landlock", "EACCES"),
            "return read(f'/proc/{VICTIM}/fd/0')",
        ),
        Probe::new(
            "the accounts and keys of the machine (`/etc/shadow`, `/root`)",
            ("mount namespace", "ENOENT"),
            ("Landlock", "EACCES"),
            "return each(lambda: read('/etc/shadow'), lambda: os.listdir('/root'))",
        )
        .control_as_root("ok"),
        Probe::new(
            "programs of the machine, replaced or added to",
            ("read-only mounts", "EROFS|EACCES+EROFS"),
            ("Landlock", "EACCES"),
            "new = [] if FREE else [lambda: os.open('/usr/bin/llm-do-probe', os.O_CREAT | os.O_WRONLY)]\nreturn each(lambda: os.open('/usr/bin/env', os.O_WRONLY), lambda: os.open('/etc/passwd', os.O_WRONLY), *new)",
        )
        .control_as_root("ok")
        .afterwards(|_| must(!fs::exists("/usr/bin/llm-do-probe").unwrap(), "ESCAPE: a program was added")),
        Probe::new("writing where only reading is given", ro, ("Landlock", "EACCES"), "return each(lambda: write(RO + '/theirs.txt'), lambda: write(RO + '/theirs.txt', how='a'), lambda: os.truncate(RO + '/theirs.txt', 0))"),
        Probe::new(
            "making, removing and replacing where only reading is given",
            ("read-only mount", "EROFS|EXDEV|EROFS+EXDEV|EXDEV+EROFS"),
            ("Landlock", "EACCES|EACCES+EXDEV"),
            "return each(lambda: write(RO + '/new'), lambda: os.unlink(RO + '/theirs.txt'), lambda: os.rename(RW + '/mine.txt', RO + '/theirs.txt'), lambda: os.rename(RO + '/theirs.txt', RW + '/x'))",
        ),
        Probe::new(
            "reopening for writing what is open for reading (`/proc/self/fd`)",
            ro,
            ("Landlock", "EACCES"),
            "fd = os.open(RO + '/theirs.txt', os.O_RDONLY)\nreturn write(f'/proc/self/fd/{fd}')",
        ),
        Probe::new(
            "a hard link from what may be read to where may be written",
            ("mounts", "EXDEV"),
            ("Landlock", "EACCES|EXDEV"),
            "os.link(RO + '/theirs.txt', RW + '/theirs')\nreturn write(RW + '/theirs')",
        ),
        Probe::new(
            "a hard link by descriptor (`O_PATH`, `/proc/self/fd`)",
            ("mounts, no capabilities", "EXDEV|ENOENT|EPERM|ENOENT+EXDEV|EPERM+EXDEV|EXDEV+EPERM"),
            ("Landlock", "EACCES|EXDEV|ENOENT|ENOENT+EXDEV|EXDEV+EACCES|EACCES+ENOENT|EACCES+EXDEV|EPERM+EXDEV"),
            r#"
            fd = os.open(RO + '/theirs.txt', os.O_PATH)
            def empty():
                return syscall(265, 37, fd, b'', -100, (RW + '/theirs').encode(), 0x1000)
            def followed():
                return syscall(265, 37, -100, f'/proc/self/fd/{fd}'.encode(), -100, (RW + '/followed').encode(), 0x400)
            return each(followed, empty)
            "#,
        ),
        Probe::new("a nameless file (`O_TMPFILE`) where only reading is given", ro, ("Landlock", "EACCES"), "return os.open(RO, os.O_TMPFILE | os.O_RDWR)"),
        Probe::new(
            "the mode of a file for reading, by path, descriptor and `fchmodat2`",
            ro,
            ("seccomp", "EPERM"),
            "p = RO + '/theirs.txt'\nreturn each(lambda: os.chmod(p, 0o777), lambda: os.fchmod(os.open(p, 0), 0o777), lambda: syscall(452, 452, -100, p.encode(), 0o777, 0))",
        ),
        Probe::new(
            "its owner",
            ro,
            ("seccomp", "EPERM"),
            "p = RO + '/theirs.txt'\nreturn each(lambda: os.chown(p, os.getuid(), os.getgid()), lambda: os.fchown(os.open(p, 0), os.getuid(), -1))",
        ),
        Probe::new("its times", ro, ("seccomp", "EPERM"), "p = RO + '/theirs.txt'\nreturn each(lambda: os.utime(p, (1, 1)), lambda: os.utime(os.open(p, 0), (1, 1)))"),
        Probe::new("its extended attributes", ro, ("seccomp", "EPERM"), "p = RO + '/theirs.txt'\nreturn each(lambda: os.setxattr(p, 'user.x', b'1'), lambda: os.setxattr(os.open(p, 0), 'user.x', b'1'))"),
        Probe::new(
            "its flags, by `ioctl` on what is open for reading",
            ro,
            ("seccomp", "EPERM"),
            "import fcntl, struct\nfd = os.open(RO + '/theirs.txt', 0)\nreturn fcntl.ioctl(fd, 0x40086602, struct.pack('l', 0x80))",
        ),
        Probe::filtered(
            "a file of the set-user-ID kind (`chmod`, `open`, `mknod`, `O_TMPFILE`)",
            "p = RW + '/mine.txt'\nreturn each(lambda: os.chmod(p, 0o4755), lambda: os.fchmod(os.open(p, 2), 0o2755), lambda: os.open(RW + '/s', os.O_CREAT | os.O_WRONLY, 0o4755), lambda: os.mknod(RW + '/t', 0o104755), lambda: os.open(RW, os.O_TMPFILE | os.O_RDWR, 0o4755))",
        )
        .afterwards(|world| {
            let mode = fs::metadata(world.project("rw/mine.txt")).unwrap().mode();
            must(mode & 0o6000 == 0, format!("ESCAPE: mode {mode:o}"))
        }),
        Probe::new(
            "a device made in a mount",
            ("user namespace", "EPERM|EACCES"),
            ("no capabilities, Landlock", "EPERM|EACCES"),
            "return each(lambda: os.mknod(RW + '/mem', 0o020600, os.makedev(1, 1)), lambda: os.mknod(RW + '/disk', 0o060600, os.makedev(254, 0)))",
        )
        .control_as_root("ok"),
        Probe::new(
            "a FIFO in a mount, at which others would wait",
            ("Landlock", "EACCES"),
            ("Landlock", "EACCES"),
            "return os.mkfifo(RW + '/fifo')",
        ),
        Probe::outside(
            "the machine's memory, log and disks (`/dev/mem`, `/dev/kmsg`, …)",
            "names = ('kmsg',) if FREE else ('kmsg', 'mem', 'port', 'vda', 'sda', 'nvme0n1', 'loop0', 'fuse', 'kvm', 'net/tun')\nhere = [n for n in names if n == 'kmsg' or os.path.exists('/dev/' + n)]\nreturn each(*[lambda n=n: os.open('/dev/' + n, os.O_RDONLY) for n in here])",
        )
        .control_as_root("ok"),
        Probe::outside(
            "terminals (`/dev/tty`, `/dev/ptmx`, `/dev/console`)",
            "return each(*[lambda n=n: os.open('/dev/' + n, os.O_RDWR | os.O_NOCTTY) for n in (('ptmx',) if FREE else ('ptmx', 'console', 'tty0'))])",
        ),
        Probe::outside("what the kernel shows of the machine (`/sys`)", "return each(lambda: os.listdir('/sys/kernel'), lambda: read('/sys/kernel/notes'))"),
        Probe::new(
            "the kernel's settings (`/proc/sys`)",
            ("no capabilities, Landlock", "EACCES|EROFS|ENOENT|EPERM|EACCES+EROFS|EACCES+ENOENT"),
            ("Landlock", "EACCES"),
            "return each(lambda: os.open('/proc/sys/kernel/core_pattern', os.O_WRONLY), lambda: os.open('/proc/sys/vm/drop_caches', os.O_WRONLY))",
        )
        .control_as_root("ok"),
        Probe::new(
            "its own settings in `/proc` (`oom_score_adj`)",
            ("Landlock", "EACCES"),
            ("Landlock", "EACCES"),
            "return write('/proc/self/oom_score_adj', '500')",
        ),
        Probe::new(
            "reading a hidden file (`.env`) in a folder that is given",
            ("masked by a mount", "EACCES|ok"),
            ("such a folder is not given", "EACCES"),
            "return read(PROJECT + '/.env')",
        )
        .whole()
        .outcome(Outcome::NotThere),
        Probe::new(
            "reading the journals of other runs (`.llm-do`)",
            ("masked by a mount", "EACCES|ENOENT"),
            ("such a folder is not given", "EACCES"),
            "return read(PROJECT + '/.llm-do/journal')",
        )
        .whole(),
        Probe::new(
            "replacing what defines the program, by writing, renaming, exchanging",
            ("masked by a mount", "EBUSY|EROFS|EBUSY+EROFS|EROFS+EBUSY"),
            ("such a folder is not given", "EACCES|EACCES+EXDEV"),
            r#"
            p = PROJECT + '/main.worker'
            other = PROJECT + '/notes/plan.md'
            return each(lambda: os.unlink(p), lambda: write(p), lambda: syscall(316, 276, -100, other.encode(), -100, p.encode(), 2),
                        lambda: os.rename(other, p), lambda: os.rename(p, PROJECT + '/x'))
            "#,
        )
        .whole(),
        Probe::new(
            "a hook in `.git`, `.git` moved away, another in its place",
            ("masked by a mount", "EBUSY|EROFS|EBUSY+EROFS"),
            ("such a folder is not given", "EACCES|EACCES+EXDEV"),
            "g = PROJECT + '/.git'\nreturn each(lambda: os.mkdir(g + '/hooks'), lambda: write(g + '/config'), lambda: os.rename(g, PROJECT + '/git'), lambda: os.rename(PROJECT + '/notes', g))",
        )
        .whole(),
        Probe::new(
            "a hard link to a hidden file",
            ("masked by a mount", "EXDEV"),
            ("such a folder is not given", "EACCES|EXDEV"),
            "os.link(PROJECT + '/.env', PROJECT + '/notes/found')\nreturn read(PROJECT + '/notes/found')",
        )
        .whole(),
        Probe::new(
            "a hidden file, after its folder was moved",
            ("masked by a mount, which moves along", "EACCES|ok"),
            ("such a folder is not given", "EACCES|EXDEV"),
            "os.rename(PROJECT + '/sub', PROJECT + '/moved')\nreturn read(PROJECT + '/moved/deep/.env')",
        )
        .whole()
        .prepare(|world| {
            world.put("sub/deep/.env", &world.secret);
        })
        .outcome(Outcome::NotThere)
        .afterwards(|world| {
            let _ = fs::rename(world.project("moved"), world.project("sub"));
            Ok(())
        }),
    ];
    Group {
        title: "Confined processes and files",
        about: "A Python function inside each tier; what it gets is the error by which the mechanism is known. The same function unconfined, in another \
                world, must succeed.",
        attempts: probes.into_iter().map(Probe::attempt).collect(),
    }
}
