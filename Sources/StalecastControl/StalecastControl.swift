import Hummingbird
import NIOHTTP1
