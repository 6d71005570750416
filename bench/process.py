"""What the system says of a process: processor time and resident memory (Linux, /proc)."""
import os


def processor_seconds(pid):
    fields = open(f"/proc/{pid}/stat", encoding="ascii").read().rsplit(")", 1)[1].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def resident_bytes(pid):
    return int(open(f"/proc/{pid}/statm", encoding="ascii").read().split()[1]) * os.sysconf("SC_PAGE_SIZE")
