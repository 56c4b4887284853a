"""The real compiler libraries of ROCm: hipRTC, and comgr that disassembles and assembles."""
